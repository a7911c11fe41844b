import type { ClientAbility } from "../../../protocol/client-abilities.ts";
import { confinePath } from "../../../protocol/confine-path.ts";
import { ErrorCode, errorResponse, type RpcError } from "../../../protocol/errors.ts";
import { paramsOf, type RequestFrame } from "../../../protocol/frame.ts";
import { ioOf, type WorkspaceIo } from "../../../protocol/methods.ts";
import { PATH_CHARS } from "../../../protocol/reader-messages.ts";
import type { Route } from "../events/event.ts";
import type { SessionState } from "../state/state.ts";
import { logClientOperation, openToClients } from "./agent-requests.ts";
import type { Batch } from "./batch.ts";

/**
 * Files and terminals that clients serve, where the workspace's settings say so. A request goes to one client, never to
 * all of them, because a file would be written on every machine.
 */

/**
 * A client that can serve requests. `abilities` are those it offers for other requests. `cwd` is the client's path of the workspace; a client that has named none is not asked,
 * because nothing bounds the paths.
 */
export type IoClient = {
  connection: string;
  serves: readonly WorkspaceIo[];
  cwd: string | null;
  abilities?: readonly ClientAbility[];
};

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
  const bounded = able.filter(({ cwd }) => cwd !== null);
  const client = bounded.find(({ connection }) => connection === turnOf) ?? bounded.at(-1);
  if (!client)
    return unavailable(`Clients serve this workspace's files, and no attached client offers ${method}`);
  const to = client.connection;
  const given = method === "terminal/create" ? params.cwd : params.path;
  // A terminal without a directory starts in the session's: the client's own may be any other.
  const isDirectoryOpen = method === "terminal/create" && given == null;
  if (isDirectoryOpen && !frame.spans.cwd && !frame.spans.sessionId)
    return { refusal: { code: ErrorCode.invalidParams, message: `${method}: params.sessionId is missing` } };
  const path = isDirectoryOpen
    ? (client.cwd ?? undefined)
    : confinePath(given, state.run?.root ?? "", client.cwd ?? "");
  return path === undefined || path.length > PATH_CHARS
    ? outside(method)
    : { route: { to, path: JSON.stringify(path) } };
}

/** The agent must not learn the client's directory. */
function outside(method: string): { refusal: RpcError } {
  const message = `${method}: the path is not below the directory of the workspace`;
  return { refusal: { code: ErrorCode.invalidParams, message, data: { reason: "outside-workspace" } } };
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
