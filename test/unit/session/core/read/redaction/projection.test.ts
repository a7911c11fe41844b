import { describe, expect, test } from "vitest";
import type { LogEvent } from "../../../../../../src/session/core/events/event.ts";
import { project } from "../../../../../../src/session/core/read/projection.ts";
import { sessionFor } from "../../../../../../src/session/core/read/redaction/redaction.ts";
import { apply } from "../../../../../../src/session/core/state/fold.ts";
import { initialState } from "../../../../../../src/session/core/state/state.ts";
import type { Json } from "../../../../../fixtures/json.ts";
import {
  asks,
  LOCATIONS,
  MARK,
  note,
  OPTION,
  SAID,
  SECRET,
  SESSION,
  says,
  TOOL,
  update,
} from "./fixtures.ts";

// ---- the projection -----------------------------------------------------------------------------------

const BY_LINK = { tenant: "t", subject: "share:x", workspaces: ["w"], scopes: [], expires: 0 } as const;

describe("a redacted projection", () => {
  const state = initialState(SESSION);
  const log: LogEvent[] = [
    note("session.requested", { tenant: "t", owner: "o", workspace: "w", agent: "a", cwd: "/", request: 1 }),
    note("session.created", { acpSessionId: "s", previous: null }),
    says("session/prompt", { sessionId: "s", prompt: [SAID] }),
    note("turn.started", { turnId: "t", prompt: 3 }),
    update({
      ...{ sessionUpdate: "tool_call", ...TOOL, status: "pending", name: SECRET, locations: LOCATIONS },
      ...{ content: [{ type: "content", content: { type: "text", text: SECRET } }], _meta: { a: SECRET } },
      ...{ rawInput: { a: SECRET }, rawOutput: [SECRET] },
    }),
    update({ sessionUpdate: "session_info_update", title: "A title", _meta: { a: SECRET } }),
    update({
      sessionUpdate: "plan",
      entries: [{ content: "do it", priority: "high", status: "pending", x: SECRET }],
    }),
    update({ sessionUpdate: "available_commands_update", availableCommands: [{ name: "n", _meta: SECRET }] }),
    asks("session/request_permission", {
      ...{ sessionId: "s", toolCall: { toolCallId: "c", rawInput: SECRET } },
      options: [{ ...OPTION, _meta: { a: SECRET } }],
    }),
    note("error", { origin: "agent", message: "It went wrong", stderr: SECRET }),
  ];
  for (const [i, event] of log.entries()) apply(state, { ...event, seq: i + 1 });
  const whole = sessionFor(BY_LINK, project(state));
  const text = sessionFor({ ...BY_LINK, redacted: true }, project(state));

  test("has the conversation and the fact that tools were used, and no more of the tools", () => {
    expect(whole).toContain(SECRET);
    expect(text).not.toContain(SECRET);
    expect(JSON.parse(text)).toMatchObject({
      acpxRecordId: SESSION,
      title: "A title",
      info: { title: "A title", _meta: MARK },
      plan: { items: [{ content: "do it", _meta: MARK }], total: 1 },
      toolCalls: { items: [{ toolCallId: "c", title: TOOL.title, locations: LOCATIONS, _meta: MARK }] },
      turns: { recent: [{ promptPreview: SAID.text }] },
      pendingPermissions: [{ toolCallId: "c", options: [{ ...OPTION, _meta: MARK }] }],
      lastError: "It went wrong",
    });
  });

  test("is complete for callers that may see everything", () => {
    expect(JSON.parse(whole)).toEqual(JSON.parse(JSON.stringify(project(state))));
  });

  test("lacks nothing harmless", () => {
    const view = {
      ...project(initialState(SESSION)),
      clients: [],
      workspaceState: { modifiedFiles: ["/a"] },
    };
    expect(sessionFor({ ...BY_LINK, redacted: true }, view)).toBe(JSON.stringify(view));
    expect(Object.keys(JSON.parse(text) as Json)).toEqual(Object.keys(project(state)));
  });
});
