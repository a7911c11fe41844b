import { type Caller, roleOf } from "../protocol/caller.ts";
import { hasMcpServers, longestValue, mayHaveCredentials } from "../protocol/concealment.ts";
import { ErrorCode, forbidden, type RpcError } from "../protocol/errors.ts";
import { ExtensionMethod } from "../protocol/extensions.ts";
import type { Frame, RequestFrame } from "../protocol/frame.ts";
import { parseClientRequestId } from "../protocol/ids.ts";
import { isForProcess } from "../protocol/methods.ts";
import { isReaderRequest, readerRequest } from "../protocol/reader-messages.ts";

/** Where a client's frame goes. */
export type ClientRoute =
  /** `reduced` is the frame without what the session must not get. */
  | { readonly to: "session"; readonly sessionId: string; readonly reduced?: RequestFrame }
  /** Every session of the client: the frame names a request, and only the session that has the request knows it. */
  | { readonly to: "all-sessions" }
  | { readonly to: "new-session"; readonly request: RequestFrame }
  | { readonly to: "deletion"; readonly request: RequestFrame }
  /** The client leaves a session, or closes it. */
  | { readonly to: "departure"; readonly request: RequestFrame }
  /** The connection answers the method itself. */
  | { readonly to: "local-method"; readonly method: LocalMethod; readonly request: RequestFrame }
  /** The agent's process, whichever session it runs for. */
  | { readonly to: "agent-process"; readonly request: RequestFrame }
  /** The process of the client's newest session, if the client has a session. */
  | { readonly to: "newest-session" }
  | { readonly to: "refusal"; readonly error: RpcError }
  | { readonly to: "nowhere" };

export type LocalMethod =
  | "session/list"
  | "session/fork"
  | "session/status"
  | "session/set_title"
  | "session/archive"
  | "session/unarchive";

/**
 * The route of a frame in canonical ACP. `named` is the session that the client names beside the frame. Ids need no
 * table: a session answers in the client's own ids, and the id of an agent's request contains its session.
 */
export function routeOf(frame: Frame, caller: Caller, named: string | undefined): ClientRoute {
  if (roleOf(caller) === "observer") return readerRoute(frame);
  const { kind, method = "", sessionId } = frame;
  if (sessionId !== undefined && kind !== "response" && isForSession(frame))
    return { to: "session", sessionId };
  if (kind === "response") {
    const asker = parseClientRequestId(frame.value.id)?.sessionId;
    return asker === undefined ? NOWHERE : { to: "session", sessionId: asker };
  }
  const tooLong = checkCredentials(frame);
  if (tooLong) return { to: "refusal", error: tooLong };
  if (frame.kind === "request") {
    const here = connectionRoute(frame);
    if (here) return here;
  }
  if (method === "session/new") return NOWHERE;
  if (sessionId !== undefined) return { to: "session", sessionId };
  if (method.startsWith("session/") && method !== "session/list")
    return { to: "refusal", error: NO_SESSION_ID };
  if (named !== undefined) return { to: "session", sessionId: named };
  if (method === "$/cancel_request") return { to: "all-sessions" };
  if (isForProcess(method))
    return frame.kind === "request" ? { to: "agent-process", request: frame } : { to: "newest-session" };
  const message = `Method not found: ${method}`;
  return { to: "refusal", error: { code: ErrorCode.methodNotFound, message } };
}

/** The route of an observer's frame: nothing but a request to read gets past the connection. */
function readerRoute(frame: Frame): ClientRoute {
  if (frame.kind !== "request") return NOWHERE;
  const reduced = readerRequest(frame);
  if (reduced?.sessionId !== undefined) return { to: "session", sessionId: reduced.sessionId, reduced };
  if (frame.method === "session/detach" || frame.method === ExtensionMethod.detach)
    return { to: "departure", request: frame };
  if (isReaderRequest(frame)) return { to: "refusal", error: NO_SESSION_ID };
  if (frame.method === "session/list" || frame.method === "session/status")
    return { to: "local-method", method: frame.method, request: frame };
  return { to: "refusal", error: forbidden(frame.method) };
}

/** The route of a request that the connection serves itself. */
function connectionRoute(request: RequestFrame): ClientRoute | undefined {
  switch (request.method) {
    case "session/new":
      return { to: "new-session", request };
    case "session/delete":
      return { to: "deletion", request };
    case "session/close":
    case "session/detach":
    case ExtensionMethod.detach:
      return { to: "departure", request };
    case "session/list":
    case "session/fork":
    case "session/status":
    case "session/set_title":
    case "session/archive":
    case "session/unarchive":
      return { to: "local-method", method: request.method, request };
    case "authenticate":
    case "logout":
      return { to: "agent-process", request };
    default:
      return undefined;
  }
}

/** Whether only the named session has to do with the frame, which is the common case. */
function isForSession({ method = "", value }: Frame): boolean {
  return !CONNECTION_METHODS.has(method) && !hasMcpServers(value);
}

/** Whether the request may attach the client to another session. */
export function mayAttach({ method = "" }: Frame): boolean {
  return ATTACHING.has(method);
}

export const NO_SESSION_ID: RpcError = {
  code: ErrorCode.invalidParams,
  message: "params.sessionId must be a string",
};

/** Environment variables and headers cannot be longer, and there is no place to keep longer ones. */
const CREDENTIAL_CHARS = 128 * 1024;

function checkCredentials({ raw, value }: Frame): RpcError | undefined {
  if (!mayHaveCredentials(value) || longestValue(raw) <= CREDENTIAL_CHARS) return undefined;
  const message = `A credential, such as a value of an MCP server's env or headers, exceeds ${CREDENTIAL_CHARS} characters`;
  return { code: ErrorCode.invalidParams, message };
}

const NOWHERE: ClientRoute = { to: "nowhere" };

/** Methods that the connection serves, whichever session they name. */
const CONNECTION_METHODS: ReadonlySet<string> = new Set([
  "session/new",
  "session/fork",
  "session/delete",
  "session/close",
  "session/detach",
  ExtensionMethod.detach,
  "session/list",
  "session/status",
  "session/set_title",
  "session/archive",
  "session/unarchive",
  "authenticate",
  "logout",
]);

const ATTACHING: ReadonlySet<string> = new Set([
  "session/new",
  "session/load",
  "session/resume",
  "session/fork",
]);
