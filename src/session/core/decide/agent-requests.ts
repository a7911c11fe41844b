import { ErrorCode, errorResponse, notification, resultResponse } from "../../../protocol/errors.ts";
import { type ResponseFrame, resultOf } from "../../../protocol/frame.ts";
import { clientRequestId } from "../../../protocol/ids.ts";
import { isRecord, textOrNull } from "../../../protocol/json-value.ts";
import { ioOf } from "../../../protocol/methods.ts";
import type { PermissionChoice, PermissionOption } from "../../../protocol/permission.ts";
import { accepted, type Result, refused, unknownPermission } from "../../../protocol/refusal.ts";
import type { FactKind } from "../events/catalogue.ts";
import type { RequestOfAgent, SessionState } from "../state/state.ts";
import { findToolCall } from "../state/tool-calls.ts";
import type { Batch } from "./batch.ts";

/** Answers to the agent's requests, by a client, a person over REST, the workspace's policy or a cancellation. */

/** The author and the reason of a decision. `by` is a connection, or the name of whatever else decided. */
export type Decision = { by: string; subject?: string; why: string };

export type Outcome = { outcome: "selected"; optionId: string } | { outcome: "cancelled" };

/** Requests of the agent that clients may answer now. */
export function openToClients({ awaitingClient }: SessionState): number[] {
  return Object.entries(awaitingClient).flatMap(([seq, { by }]) => (by === "client" ? [Number(seq)] : []));
}

// ---- permissions --------------------------------------------------------------------------------------

export function optionsIn(params: unknown): PermissionOption[] {
  const options = isRecord(params) && Array.isArray(params.options) ? params.options.filter(isRecord) : [];
  return options.flatMap(({ optionId, kind, name }) =>
    typeof optionId === "string" ? [{ optionId, kind: textOrNull(kind), name: textOrNull(name) }] : [],
  );
}

/** The kind of tool that a request concerns: its own `kind`, or that of the tool call it names. */
export function toolKindIn({ report }: SessionState, params: unknown): string {
  const toolCall = isRecord(params) && isRecord(params.toolCall) ? params.toolCall : {};
  return textOrNull(toolCall.kind) ?? findToolCall(report, toolCall.toolCallId)?.kind ?? "other";
}

/** A choice by kind means exactly that kind: "once" is never widened to "always". */
export function choosePermission(
  batch: Batch,
  seq: number,
  choice: PermissionChoice,
  decision: Decision,
): Result<undefined> {
  const { awaitingClient, sessionId } = batch.state;
  if (!awaitingClient[seq]?.permission) return refused(unknownPermission(clientRequestId(sessionId, seq)));
  const options = optionsIn(batch.frameAt(seq).frame.value.params);
  const chosen = options.find((option) =>
    "optionId" in choice ? option.optionId === choice.optionId : option.kind === choice.kind,
  );
  if (!chosen) return refused({ reason: "no-option", message: noOption(choice), options });
  decide(batch, seq, { outcome: "selected", optionId: chosen.optionId }, decision);
  return accepted();
}

function noOption(choice: PermissionChoice): string {
  return "optionId" in choice
    ? `There is no option ${JSON.stringify(choice.optionId)}`
    : `The request has no option of the kind ${choice.kind}`;
}

/** Gives the agent the gateway's own answer to a permission request. */
export function decide(batch: Batch, seq: number, outcome: Outcome, decision: Decision): void {
  const pending = batch.state.awaitingClient[seq];
  if (!pending) return;
  const answer = batch.frame("gateway", "out", resultResponse(pending.id, { outcome }), { re: seq });
  batch.fact("gateway", "permission.responded", { request: seq, answer, outcome, ...decision });
  if (!pending.hidden) withdraw(batch, seq, pending, decision.by);
}

// ---- requests that are settled ------------------------------------------------------------------------

/** A client's own answer goes to the agent. The first answer of several counts. */
export function clientAnswer(
  batch: Batch,
  { connection, subject }: { connection: string; subject: string },
  seq: number,
  pending: RequestOfAgent,
  frame: ResponseFrame,
): void {
  const answer = batch.frame("client", "out", frame, { connection, re: seq, id: pending.id });
  if (pending.permission) {
    const outcome = resultOf(frame).outcome ?? null;
    const decision: Decision = { by: connection, subject, why: "answered" };
    batch.fact("gateway", "permission.responded", { request: seq, answer, outcome, ...decision });
  }
  if (ioOf(pending.method)) logClientOperation(batch, seq, pending, answer, !("error" in frame.value));
  // A file or terminal request was shown to no other client.
  else withdraw(batch, seq, pending, connection);
}

/** Logs that a file or terminal request of the agent was served. */
export function logClientOperation(
  batch: Batch,
  request: number,
  { method }: RequestOfAgent,
  answer: number,
  ok: boolean,
): void {
  const kind = OPERATIONS.get(method);
  if (kind) batch.fact("gateway", kind, { request, answer, ok });
}

const OPERATIONS: ReadonlyMap<string, Extract<FactKind, `client.${string}`>> = new Map([
  ["fs/read_text_file", "client.fs.read"],
  ["fs/write_text_file", "client.fs.write"],
  ["terminal/create", "client.terminal.create"],
  ["terminal/output", "client.terminal.output"],
  ["terminal/wait_for_exit", "client.terminal.wait_for_exit"],
  ["terminal/kill", "client.terminal.kill"],
  ["terminal/release", "client.terminal.release"],
]);

/** Answers the open requests of a cancelled turn, because no client may be there to do it. */
export function cancelRequestsOfAgent(batch: Batch, by: string): void {
  for (const seq of openToClients(batch.state)) {
    const pending = batch.state.awaitingClient[seq] as RequestOfAgent;
    if (pending.permission)
      decide(batch, seq, { outcome: "cancelled" }, { by, why: "the turn was cancelled" });
    if (pending.method !== "elicitation/create") continue;
    batch.frame("gateway", "out", resultResponse(pending.id, { action: "cancel" }), { re: seq });
    withdraw(batch, seq, pending);
  }
}

/** The agent cancelled its own request: it gets the answer that is due. Clients have its cancellation already. */
export function cancelledByAgent(batch: Batch, seq: number, { id, permission }: RequestOfAgent): void {
  const error = { code: ErrorCode.requestCancelled, message: "Request cancelled" };
  batch.frame("gateway", "out", errorResponse(id, error), { re: seq });
  if (permission) logWithdrawn(batch, seq, "the agent cancelled its request");
}

/** Logs the end of a process with `logEnd`, which ends its requests, and tells the clients that were asked. */
export function endRequestsOfAgent(batch: Batch, why: string, logEnd: () => void): void {
  const open = openToClients(batch.state).map(
    (seq) => [seq, batch.state.awaitingClient[seq] as RequestOfAgent] as const,
  );
  logEnd();
  for (const [seq, pending] of open) {
    if (pending.permission) logWithdrawn(batch, seq, why);
    withdraw(batch, seq, pending);
  }
}

/** Nobody answered the permission request, and no answer is needed any more. */
function logWithdrawn(batch: Batch, seq: number, why: string): void {
  batch.fact("gateway", "permission.withdrawn", { request: seq, why });
}

/** Tells every client that was shown the request, except the one that answered it, that the request is settled. */
function withdraw(batch: Batch, seq: number, { to }: RequestOfAgent, except?: string): void {
  const requestId = clientRequestId(batch.state.sessionId, seq);
  batch.frame("gateway", "in", notification("$/cancel_request", { requestId }), {
    re: seq,
    ...(to === undefined ? {} : { to }),
    ...(except === undefined ? {} : { except }),
  });
}
