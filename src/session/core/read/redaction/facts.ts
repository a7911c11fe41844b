import { type Allowed, members, scalars } from "../../../../protocol/allow-list.ts";
import { ERROR, OPTIONS, OUTCOME, TOOL_CALL } from "./parts.ts";

/**
 * What may be shown of the payload of an event that is no message. What the process has written on stderr, or where a
 * message should have been, is in none of these.
 */
export function payloadOf(kind: string): Allowed {
  if (kind.startsWith("client.")) return OPERATION;
  return NOTES.get(kind) ?? members({});
}

/** A file or a terminal was served. */
const OPERATION = members(scalars("request", "answer", "ok"));

const IDENTITY = scalars("tenant", "owner", "workspace", "agent", "cwd", "request");
const ORIGIN = members(scalars("format", "acpxRecordId", "lastSeq", "whole", "tenant", "owner", "workspace"));
const ON_HOST = members(scalars("run", "host"));
const SETTLED = members(scalars("request", "why"));

/** A log that was made of a record of turns has previews in place of messages. */
const TURN = scalars(
  ...["turnId", "prompt", "stopReason", "reason"],
  ...["synthetic", "textPreview", "promptPreview", "replyPreview"],
);

const NOTES: ReadonlyMap<string, Allowed> = new Map<string, Allowed>([
  ["session.anticipated", members(IDENTITY)],
  ["session.requested", members(IDENTITY)],
  ["session.imported", members({ ...IDENTITY, from: ORIGIN })],
  [
    "session.created",
    members(scalars("acpSessionId", "previous", "synthetic", "agentCommand", "cwd", "name")),
  ],
  ["session.rebound", members(scalars("acpSessionId", "previous"))],
  ["session.loaded", members(scalars("acpSessionId", "method", "connection", "request", "replay", "role"))],
  ["session.agent_session_id.updated", members(scalars("agentSessionId", "previous", "synthetic"))],
  ["session.closed", members(scalars("by", "synthetic"))],
  ["agent.login", members(scalars("request", "method", "connection"))],
  ["log.archived", members(scalars("first", "last", "key", "chars"))],
  ["runtime.connected", members(scalars("run", "agent", "host", "root", "wish", "delivered", "io"))],
  ["runtime.reconnected", ON_HOST],
  ["runtime.disconnected", members(scalars("run", "reason"))],
  ["runtime.paused", members(scalars("run", "host", "reason"))],
  ["runtime.reconnect_attempt", members(scalars("attempt", "delayMs", "reason", "process"))],
  ["queue.enqueued", members(scalars("seq", "turnId", "position"))],
  ["queue.dequeued", members(scalars("seq", "turnId", "dropped"))],
  ["queue.owner.started", members(scalars("run", "pid", "command"))],
  [
    "queue.owner.stopped",
    members(scalars("run", "pid", "code", "signal", "error", "reason", "expected", "lost", "synthetic")),
  ],
  ["queue.owner.draining", ON_HOST],
  ["queue.owner.drained", ON_HOST],
  ["queue.owner.lease_renewed", members(scalars("run", "until"))],
  ["queue.owner.idle_expired", members(scalars("run", "idleMs"))],
  ["turn.started", members(TURN)],
  ["turn.completed", members(TURN)],
  ["turn.cancelled", members(TURN)],
  ["turn.failed", members({ ...TURN, error: ERROR })],
  ["permission.policy", "open"],
  ["permission.requested", members({ request: "scalar", toolCall: TOOL_CALL, options: OPTIONS })],
  [
    "permission.responded",
    members({ ...scalars("request", "answer", "by", "subject", "why"), outcome: OUTCOME }),
  ],
  ["permission.withdrawn", SETTLED],
  ["permission.expired", SETTLED],
  ["error", members(scalars("origin", "code", "detailCode", "message", "violation", "frame", "last"))],
]);
