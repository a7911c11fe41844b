import { type Allowed, each, members, scalars } from "../../../../protocol/allow-list.ts";
import { MetaKey } from "../../../../protocol/extensions.ts";
import {
  COMMANDS,
  CONFIG_OPTIONS,
  CONTENT,
  COST,
  NAMED_PLAN,
  PLAN_ENTRIES,
  TOOL_CALL_UPDATE,
} from "../../events/visible-parts.ts";

/** The part of the `update` of a session/update that a redacted reader sees. */
export function updateOf(params: unknown, source: string): Allowed {
  const { sessionUpdate } = ((params as { update?: unknown } | null | undefined)?.update ?? {}) as {
    sessionUpdate?: unknown;
  };
  if (sessionUpdate === "session_info_update" && source === "gateway") return GATEWAY_INFO;
  return UPDATES.get(sessionUpdate) ?? update();
}

function update(allowed: Readonly<Record<string, Allowed>> = {}): Allowed {
  return members({ sessionUpdate: "scalar", ...allowed });
}

/** Notices of the gateway to all clients. */
const GATEWAY_INFO = members(
  {
    ...scalars("sessionUpdate", "title", "updatedAt"),
    _meta: members(scalars(MetaKey.noticeEvent, MetaKey.noticeMessage), ""),
  },
  "",
);

const CHUNK = update({ content: CONTENT, messageId: "scalar" });

/** Messages between an agent and its subagents count as tool data. */
const SESSION_MESSAGE = update(
  scalars("messageId", "senderSessionId", "recipientSessionId", "senderMessageId", "recipientMessageId"),
);

const UPDATES: ReadonlyMap<unknown, Allowed> = new Map([
  ["user_message_chunk", CHUNK],
  ["agent_message_chunk", CHUNK],
  ["agent_thought_chunk", CHUNK],
  ["tool_call", TOOL_CALL_UPDATE],
  ["tool_call_update", TOOL_CALL_UPDATE],
  ["plan", update({ entries: PLAN_ENTRIES })],
  ["plan_update", update({ plan: NAMED_PLAN })],
  ["plan_removed", update(scalars("planId"))],
  ["available_commands_update", update({ availableCommands: COMMANDS })],
  ["current_mode_update", update(scalars("currentModeId"))],
  ["config_option_update", update({ configOptions: CONFIG_OPTIONS })],
  ["session_info_update", update(scalars("title", "updatedAt"))],
  ["usage_update", update({ ...scalars("used", "size"), cost: COST })],
  ["notice", update(scalars("severity", "title", "description"))],
  ["compaction_update", update({ ...scalars("compactionId", "status", "error"), summary: each(CONTENT) })],
  ["compaction_summary_chunk", update({ compactionId: "scalar", content: CONTENT })],
  [
    "subagent_update",
    update({ ...scalars("sessionId", "title"), state: members(scalars("state", "stopReason")) }),
  ],
  ["session_message", SESSION_MESSAGE],
  ["session_message_chunk", SESSION_MESSAGE],
]);
