import { notification } from "./errors.ts";

/** Our additions to ACP, every name once: methods begin with `_acp-edge/`, keys within `_meta` with `acp-edge/`. */

export const ExtensionMethod = {
  /** Request, client → gateway: continue with the token in `params.token`. The result has `expiresAt`. */
  renewToken: "_acp-edge/renew",
  /** Request, client → gateway: as `session/detach`. */
  detach: "_acp-edge/detach",
  /** Notification, gateway → client: the connection's token expires at `params.expiresAt`. */
  tokenExpiring: "_acp-edge/token_expiring",
  /** Request, gateway → client: any answer, even "method not found", proves that the client reads. */
  ping: "_acp-edge/ping",
  /** Notification, session → connection: a prompt of another client ended with `params.result` or `params.error`. */
  turnEnded: "_acp-edge/turn_ended",
  /** Notification, session → connection: `params` is an AgentStatusNotice. */
  agentStatus: "_acp-edge/agent",
} as const;

/** Methods that the gateway alone may send to clients. */
export function isReservedMethod(method: string): boolean {
  return method.startsWith("_acp-edge/");
}

export const MetaKey = {
  // ---- Requests of clients

  /** `session/prompt`: a prompt sent again under its key runs once. */
  idempotencyKey: "acp-edge/idempotencyKey",
  /** `session/load`, `session/resume`: the sequence number after which the client wants to read on. */
  after: "acp-edge/after",
  /** `session/resume`: the earlier connection of this client, whose unanswered requests it takes over. */
  as: "acp-edge/as",
  /** `session/fork`: the last event that the new session shares with the old one. */
  at: "acp-edge/at",
  /** `session/close`: what the client means by it, see `close-meaning.ts`. */
  closeMeans: "acp-edge/closeMeans",

  // ---- Results and notifications of the gateway

  /** `session_info_update`: the kind of a notice to every client, and its text, see `gatewayNotice`. */
  noticeEvent: "acp-edge/event",
  noticeMessage: "acp-edge/message",
  /** `session/list`: where a session lives, its agent, and its status. */
  workspace: "acp-edge/workspace",
  agent: "acp-edge/agent",
  state: "acp-edge/state",
  /**
   * `session/load`, `session/resume`: of each member of the request that the running process does not have, `next
   * process` or the reason why the workspace does not allow it.
   */
  opening: "acp-edge/opening",
  /** Redacted reads: true in an object that lost some of its members. */
  redacted: "acp-edge/redacted",

  // ---- Members of a dialect's messages that have no canonical place, kept on their way to the agent and back

  /** `metadata` of a content block. */
  blockMetadata: "acp-edge/metadata",
  /** `type` of a content block that canonical ACP lacks. */
  blockType: "acp-edge/type",
  /** `mode` of `session/new`. */
  sessionMode: "acp-edge/mode",
  /** Members of a prompt's `message` other than role and content. */
  promptMessage: "acp-edge/promptMessage",
  /** A tool's `kind`, where the dialect uses that name for another value. */
  toolKind: "acp-edge/kind",
} as const;

/** News of the agent process, for clients that subscribe to it. */
export type AgentStatusNotice = { status: "ready" | "error" | "restarting"; error?: string };

/** A `session/update` by which the gateway itself tells every client of a session something. */
export function gatewayNotice(sessionId: string, event: string, message: string): string {
  const update = {
    sessionUpdate: "session_info_update",
    _meta: { [MetaKey.noticeEvent]: event, [MetaKey.noticeMessage]: message },
  };
  return notification("session/update", { sessionId, update });
}
