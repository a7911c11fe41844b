import { mayAdminister } from "../../../protocol/caller.ts";
import { referencesIn } from "../../../protocol/concealment.ts";
import { ErrorCode } from "../../../protocol/errors.ts";
import { gatewayNotice } from "../../../protocol/extensions.ts";
import { type Frame, mustReadFrame, paramsOf } from "../../../protocol/frame.ts";
import type { ImportOrder } from "../../../protocol/rpc.ts";
import type { Facts } from "../events/catalogue.ts";
import { isFrame, type LogEvent } from "../events/event.ts";
import type { Batch } from "./batch.ts";
import { dropQueued } from "./queue.ts";
import { failRunning } from "./turns.ts";

/** The client's request that created the session. The next agent process is asked with it again. */
export type OpeningRequest = {
  seq: number;
  cwd: string;
  /** How many credentials in it were concealed, and stayed in the original session. */
  concealed: number;
};

export function openingRequest(event: LogEvent): OpeningRequest | undefined {
  if (!isFrame(event) || event.direction !== "out" || event.frame.kind !== "request") return undefined;
  if (event.frame.method !== "session/new") return undefined;
  const { cwd } = paramsOf(event.frame);
  if (typeof cwd !== "string") return undefined;
  return { seq: event.seq, cwd, concealed: referencesIn(event.frame.raw).length };
}

/**
 * The first events of an imported session here: its owner from now on, and the end of everything that ran or waited
 * when the session was exported. The next prompt starts a process.
 */
export function takeOverImport(
  batch: Batch,
  order: ImportOrder,
  opening: OpeningRequest | undefined,
  conceal: (frame: Frame) => Frame,
): void {
  const { state } = batch;
  const { run, identity: before, lastSeq } = state;
  const { tenant, subject: owner } = order.caller;
  const wanted = order.opening === undefined ? undefined : (JSON.parse(order.opening) as { cwd: string });
  const cwd = wanted?.cwd ?? before?.cwd ?? opening?.cwd ?? order.cwd ?? "/";
  const own = wanted ?? (opening ? undefined : { cwd, mcpServers: [] });
  const payload: Facts["session.imported"] = {
    from: {
      format: order.format,
      acpxRecordId: order.recordId,
      lastSeq,
      ...(order.copy ? { whole: [null, lastSeq].includes(order.copy.originSeq) } : {}),
      tenant: before?.tenant ?? null,
      owner: before?.owner ?? null,
      workspace: before?.workspace ?? null,
    },
    tenant,
    owner,
    workspace: order.workspace,
    agent: order.agent ?? before?.agent ?? order.defaultAgent,
    cwd,
    request: own || !opening ? batch.nextSeq + 1 : opening.seq,
    ...(!mayContinue(order, state.context.acpSessionId) && { anew: true }),
  };
  batch.fact("gateway", "session.imported", payload, { ...state.context, turnId: null });
  if (own) {
    const request = { jsonrpc: "2.0", id: 0, method: "session/new", params: own };
    const frame = mustReadFrame(JSON.stringify(request));
    batch.frame("gateway", "out", conceal(frame), { stop: "gateway" });
  } else if (opening && opening.concealed > 0) {
    tellConcealed(batch, opening.concealed);
  }
  const reason = order.format === "fork" ? FORKED : MOVED;
  const error = { code: ErrorCode.internal, message: reason, data: { outcome: "unknown" } };
  for (const item of [...state.queue]) dropQueued(batch, item, error);
  if (run || Object.keys(state.awaitingAgent).length > 0 || Object.keys(state.awaitingClient).length > 0) {
    const exit = { run: run?.id ?? null, code: null, signal: null, reason, expected: true };
    batch.fact("gateway", "queue.owner.stopped", exit);
  }
  failRunning(batch, "imported", error);
}

/**
 * Whether the agent may continue, or fork, the agent session that the log names. The log can name any agent session of
 * the host, so this is for administrators of the workspace, and for copies of a session that the caller may read.
 */
function mayContinue({ format, caller, copy, workspace }: ImportOrder, acpSessionId: string | null): boolean {
  if (format === "fork" || mayAdminister(caller, workspace)) return true;
  return acpSessionId !== null && copy?.agentSession === acpSessionId;
}

/** Tells clients that the agent and its MCP servers start without their credentials. */
function tellConcealed(batch: Batch, count: number): void {
  const message = `The import lacks ${count} secret values of the agent and its MCP servers: open a new session to supply them`;
  batch.frame("gateway", "in", gatewayNotice(batch.state.sessionId, "session.imported", message));
}

const FORKED = "The session was forked before this request was answered";
const MOVED = "The session was exported before this request was answered";
