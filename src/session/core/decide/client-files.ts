import { ErrorCode, errorResponse, type RpcError } from "../../../protocol/errors.ts";
import { paramsOf, type RequestFrame } from "../../../protocol/frame.ts";
import { ioOf, type WorkspaceIo } from "../../../protocol/methods.ts";
import { rebasePath } from "../../../protocol/rebase-path.ts";
import type { Route } from "../events/event.ts";
import type { SessionState } from "../state/state.ts";
import { logClientOperation, openToClients } from "./agent-requests.ts";
import type { Batch } from "./batch.ts";

/**
 * Files and terminals that clients serve, where the workspace's settings say so. A request goes to one client, never to
 * all of them, because a file would be written on every machine.
 */

/** A client that can serve requests. `cwd` is the client's path of the workspace. */
export type IoClient = { connection: string; serves: readonly WorkspaceIo[]; cwd: string | null };

/** The route of a request of the agent, or the reason why no client can serve it. The latest client is the last. */
export function routeToClient(
  state: SessionState,
  frame: RequestFrame,
  clients: readonly IoClient[],
): { route: Route } | { refusal: RpcError } {
  const { method } = frame;
  const io = ioOf(method) as WorkspaceIo;
  const able = clients.filter(({ serves }) => serves.includes(io));
  const params = paramsOf(frame);
  if (io === "terminal" && method !== "terminal/create") return toOwner(state, able, params.terminalId);
  const turnOf = state.turn ? state.awaitingAgent[state.turn.prompt]?.connection : undefined;
  const client = able.find(({ connection }) => connection === turnOf) ?? able.at(-1);
  if (!client)
    return unavailable(`Clients serve this workspace's files, and no attached client offers ${method}`);
  const path = rebasePath(
    String(method === "terminal/create" ? params.cwd : params.path),
    state.run?.root ?? "",
    client.cwd ?? state.identity?.cwd ?? "/",
  );
  const to = client.connection;
  return { route: path === undefined ? { to } : { to, path: JSON.stringify(path) } };
}

/** Requests for a terminal go to the client that created it. */
function toOwner({ run }: SessionState, able: readonly IoClient[], terminalId: unknown) {
  const owner = run?.terminals.find(({ id }) => id === terminalId)?.connection;
  if (owner === undefined)
    return { refusal: { code: ErrorCode.notFound, message: "Unknown terminal", data: { terminalId } } };
  if (!able.some(({ connection }) => connection === owner))
    return unavailable("The client that has this terminal is gone");
  return { route: { to: owner } };
}

function unavailable(message: string): { refusal: RpcError } {
  return { refusal: { code: ErrorCode.methodNotFound, message } };
}

/** A client is gone for good. Unlike a permission, a request to its machine can be answered by no other client. */
export function ioClientGone(batch: Batch, connection: string): void {
  for (const seq of openToClients(batch.state)) {
    const pending = batch.state.awaitingClient[seq];
    if (pending?.to !== connection || ioOf(pending.method) === undefined) continue;
    const error = { code: ErrorCode.internal, message: "The client that was asked is gone" };
    const answer = batch.frame("gateway", "out", errorResponse(pending.id, error), { re: seq });
    logClientOperation(batch, seq, pending, answer, false);
  }
}
