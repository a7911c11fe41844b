import { type Allowed, blank, each, members, scalars } from "../../../../protocol/allow-list.ts";
import {
  COMMANDS,
  CONFIG_OPTIONS,
  COST,
  MODELS,
  MODES,
  NAMED_PLAN,
  OPTIONS,
  PLAN_ENTRIES,
  TOKENS,
  TOOL_CALL_KEPT,
} from "../../events/visible-parts.ts";

/** A bounded list of the state. */
function kept(items: Allowed): Allowed {
  return members({ ...scalars("total", "truncated"), items });
}

function choice(available: Allowed): Allowed {
  return members({ current: "scalar", available: kept(available) });
}

const TURN = members(
  scalars(
    ...[
      "turnId",
      "prompt",
      "requestId",
      "status",
      "queuedAt",
      "startedAt",
      "endedAt",
      "stopReason",
      "reason",
    ],
    ...["promptPreview", "replyPreview", "updates", "toolCalls"],
  ),
);

/** The part of the projection, and of the additions of a view, that a redacted reader sees. */
export const SESSION = members({
  ...scalars("schema", "acpxRecordId", "state", "title", "archived", "agentStatus", "lastError"),
  // The session under the names of the container data model; its messages are redacted events.
  ...scalars("sessionId", "mode", "createdAt", "lastActiveAt"),
  workspaceUri: blank("null"),
  agent: members({ command: blank('""'), name: "scalar" }),
  workspace: members({ cwd: blank('""'), name: "scalar" }),
  identity: members({ acpSessionId: blank("null"), agentSessionId: blank("null") }),
  lifecycle: members({
    ...scalars("createdAt", "lastUsedAt", "closed", "closedAt", "agentStartedAt"),
    pid: blank("null"),
    lastAgentExit: members(scalars("code", "signal", "at", "reason")),
  }),
  log: members(scalars("firstSeq", "lastSeq", "nextSeq", "archivedUpTo", "activeSegment")),
  info: members(scalars("title", "updatedAt")),
  host: members({ name: blank('"host"'), run: blank('""'), ...scalars("connected", "draining") }),
  modes: choice(MODES),
  models: choice(MODELS),
  configOptions: kept(CONFIG_OPTIONS),
  commands: kept(COMMANDS),
  plan: kept(PLAN_ENTRIES),
  plans: each(members({ planId: "scalar", plan: NAMED_PLAN, truncated: members(scalars("plan")) })),
  toolCalls: members({ ...scalars("total", "dropped"), items: each(TOOL_CALL_KEPT) }),
  usage: members({ ...scalars("used", "size"), cost: COST, tokens: TOKENS }),
  compaction: members(scalars("compactionId", "status", "error", "seq", "startedAt")),
  violations: "open",
  turn: members(scalars("turnId", "prompt", "startedAt")),
  turns: members({ total: "scalar", recent: each(TURN) }),
  queue: each(members(scalars("seq", "turnId", "since", "promptPreview"))),
  pendingPermissions: each(
    members({
      ...scalars("seq", "since", "toolCallId", "title", "kind"),
      options: OPTIONS,
      truncated: members(scalars("options")),
    }),
  ),
  pendingQuestions: each(
    members({
      ...scalars("seq", "since", "mode", "toolCallId"),
      truncated: members(scalars("requestedSchema", "url")),
    }),
  ),
  pendingRequests: each(members(scalars("seq", "method", "by", "since"))),
  // The names of people are replaced before.
  clients: each(members(scalars("connection", "role", "since", "subject"))),
  workspaceState: members({ currentBranch: "scalar", modifiedFiles: each("scalar") }),
});
