import type { NewSessionResponse, SessionUpdate } from "@agentclientprotocol/sdk";
import type { SessionUpdate as UnstableUpdate } from "@agentclientprotocol/sdk/unstable";
import { describe, expect, test } from "vitest";
import { mustReadFrame } from "../../../../../src/protocol/frame.ts";
import { currentSetup } from "../../../../../src/session/core/read/current-setup.ts";
import {
  type AgentReport,
  foldResult,
  foldUpdate,
  initialAgentReport,
} from "../../../../../src/session/core/state/agent-report.ts";
import { choiceIn, foldSetup } from "../../../../../src/session/core/state/agent-settings.ts";
import { STATE_BUDGET } from "../../../../../src/session/core/state/state-budget.ts";
import { foldPermissionToolCall } from "../../../../../src/session/core/state/tool-calls.ts";

/** Folds updates, the first as event 1 at time 1000. */
function after(...updates: (SessionUpdate | UnstableUpdate)[]): AgentReport {
  return fold(initialAgentReport(), ...updates);
}

function fold(acp: AgentReport, ...updates: unknown[]): AgentReport {
  for (const [i, update] of updates.entries()) foldUpdate(acp, update, i + 1, (i + 1) * 1000);
  return acp;
}

function call(acp: AgentReport, id = "t") {
  return acp.toolCalls.items.find(({ toolCallId }) => toolCallId === id);
}

const text = (content: string) => ({ type: "text" as const, text: content });
const output = (content: string) => [{ type: "content" as const, content: text(content) }];

/** A log that has nothing. */
const nowhere = () => undefined;

describe("a tool call", () => {
  test("is merged from sparse updates", () => {
    const acp = after(
      {
        sessionUpdate: "tool_call",
        toolCallId: "t",
        title: "Reading",
        kind: "read",
        rawInput: { path: "/a" },
        locations: [{ path: "/a", line: 3 }],
      },
      { sessionUpdate: "tool_call_update", toolCallId: "t", status: "in_progress" },
      { sessionUpdate: "tool_call_update", toolCallId: "t", content: output("one") },
      {
        sessionUpdate: "tool_call_update",
        toolCallId: "t",
        status: "completed",
        title: "Read",
        content: output("two"),
        rawOutput: 0,
      },
    );
    expect(call(acp)).toEqual({
      toolCallId: "t",
      title: "Read",
      name: null,
      kind: "read",
      status: "completed",
      seq: 1,
      startedAt: 1000,
      endedAt: 4000,
      announced: true,
      details: {
        rawInput: { seq: 1, chars: 13, value: { path: "/a" } },
        locations: { seq: 1, chars: 24, value: [{ path: "/a", line: 3 }] },
        content: { seq: 4, chars: expect.any(Number), value: output("two") },
        rawOutput: { seq: 4, chars: 1, value: 0 },
      },
    });
    expect(Object.values(acp.violations)).toEqual([0, 0, 0, 0, 0]);
  });

  test("is created by an update that comes before the call", () => {
    const acp = after({ sessionUpdate: "tool_call_update", toolCallId: "t", status: "in_progress" });
    expect(call(acp)).toMatchObject({ title: null, kind: "other", status: "in_progress" });
    fold(acp, { sessionUpdate: "tool_call", toolCallId: "t", title: "Late" });
    expect(call(acp)).toMatchObject({ title: "Late", status: "in_progress" });
    expect(acp.toolCalls.total).toBe(1);
    expect(acp.violations.duplicateToolCall).toBe(0);
  });

  test("only goes forward: a step back is ignored and counted, but its other members apply", () => {
    const acp = after(
      { sessionUpdate: "tool_call", toolCallId: "t", title: "a", status: "in_progress" },
      { sessionUpdate: "tool_call_update", toolCallId: "t", status: "pending", title: "b" },
      { sessionUpdate: "tool_call_update", toolCallId: "t", status: "failed" },
      { sessionUpdate: "tool_call_update", toolCallId: "t", status: "failed" },
      { sessionUpdate: "tool_call_update", toolCallId: "t", status: "completed" },
      { sessionUpdate: "tool_call_update", toolCallId: "t", status: "in_progress" },
    );
    expect(call(acp)).toMatchObject({ title: "b", status: "failed", endedAt: 3000 });
    expect(acp.violations.backwardStatus).toBe(3);
  });

  test("is one call when it is announced twice under one id, and counted", () => {
    const acp = after(
      { sessionUpdate: "tool_call", toolCallId: "t", title: "Terminal", status: "pending", rawInput: {} },
      { sessionUpdate: "tool_call", toolCallId: "t", title: "`ls`", rawInput: { command: "ls" } },
    );
    expect(acp.toolCalls.items).toHaveLength(1);
    expect(call(acp)).toMatchObject({ title: "`ls`", details: { rawInput: { value: { command: "ls" } } } });
    expect(acp.violations.duplicateToolCall).toBe(1);
  });

  test("keeps members that an update omits or sets to null: ACP v1 cannot clear a member", () => {
    const acp = after(
      {
        sessionUpdate: "tool_call",
        toolCallId: "t",
        title: "a",
        name: "n",
        kind: "edit",
        content: output("x"),
      },
      {
        sessionUpdate: "tool_call_update",
        toolCallId: "t",
        title: null,
        name: null,
        kind: null,
        status: null,
        content: null,
        rawInput: null,
      },
    );
    expect(call(acp)).toMatchObject({ title: "a", name: "n", kind: "edit", status: "pending" });
    expect(call(acp)?.details.content?.value).toEqual(output("x"));
    fold(acp, { sessionUpdate: "tool_call_update", toolCallId: "t", content: [] });
    expect(call(acp)?.details.content?.value).toEqual([]);
  });

  test("keeps details up to a size, and the event number of longer ones", () => {
    const fits = "x".repeat(STATE_BUDGET.detailChars - 2);
    const acp = after(
      { sessionUpdate: "tool_call", toolCallId: "t", title: "a", rawInput: fits, rawOutput: `${fits}x` },
      { sessionUpdate: "tool_call_update", toolCallId: "t", content: output("\n".repeat(3000)) },
    );
    expect(call(acp)?.details).toEqual({
      rawInput: { seq: 1, chars: STATE_BUDGET.detailChars, value: fits },
      rawOutput: { seq: 1, chars: 0 },
      content: { seq: 2, chars: 0 },
    });
  });

  test("is dropped when there are too many, the oldest finished one first", () => {
    const acp = initialAgentReport();
    for (let i = 0; i < STATE_BUDGET.toolCalls; i += 1)
      fold(acp, {
        sessionUpdate: "tool_call",
        toolCallId: `${i}`,
        title: "",
        status: i % 2 ? "completed" : "pending",
      });
    fold(acp, { sessionUpdate: "tool_call", toolCallId: "new", title: "", status: "completed" });
    expect(acp.toolCalls).toMatchObject({ total: STATE_BUDGET.toolCalls + 1, dropped: 1 });
    expect(acp.toolCalls.items).toHaveLength(STATE_BUDGET.toolCalls);
    expect(call(acp, "0")).toBeDefined();
    expect(call(acp, "1")).toBeUndefined();
    expect(call(acp, "new")).toBeDefined();
  });

  test("loses old details when all details together are too long", () => {
    const acp = initialAgentReport();
    const rawInput = "x".repeat(4000);
    for (let i = 0; i < 200; i += 1)
      fold(acp, { sessionUpdate: "tool_call", toolCallId: `${i}`, title: "", rawInput });
    expect(acp.toolCalls.items).toHaveLength(200);
    expect(JSON.stringify(acp).length).toBeLessThan(STATE_BUDGET.toolCallsChars + 200 * 250);
    expect(call(acp, "0")?.details.rawInput).toEqual({ seq: 1, chars: 0 });
    expect(call(acp, "199")?.details.rawInput?.value).toBe(rawInput);
    const kept = acp.toolCalls.items.flatMap(({ toolCallId, details }) => [
      toolCallId.length,
      ...Object.values(details).map(({ chars }) => chars),
    ]);
    expect(acp.toolCalls.keptChars).toBe(kept.reduce((sum, chars) => sum + chars, 0));
  });

  test("stays bounded when the ids alone are too long", () => {
    const acp = initialAgentReport();
    for (let i = 0; i < 1000; i += 1)
      fold(acp, { sessionUpdate: "tool_call", toolCallId: `${i}`.padEnd(1000, "-"), title: "" });
    expect(acp.toolCalls.keptChars).toBeLessThanOrEqual(STATE_BUDGET.toolCallsChars);
    expect(acp.toolCalls.items.length + acp.toolCalls.dropped).toBe(1000);
  });

  test("keeps the first content once it is finished, and takes what it did not have", () => {
    const acp = after(
      {
        sessionUpdate: "tool_call",
        toolCallId: "t",
        title: "T",
        status: "completed",
        content: output("first"),
      },
      { sessionUpdate: "tool_call_update", toolCallId: "t", content: output("first") },
    );
    expect(acp.violations.changedContent).toBe(0);
    fold(acp, {
      sessionUpdate: "tool_call_update",
      toolCallId: "t",
      content: output("second"),
      rawOutput: 1,
    });
    expect(acp.violations.changedContent).toBe(1);
    expect(call(acp)?.details.content?.value).toEqual(output("first"));
    expect(call(acp)?.details.rawOutput?.value).toBe(1);
  });

  test("is created by a permission request that comes first, and not changed by a later one", () => {
    const acp = initialAgentReport();
    foldPermissionToolCall(
      acp,
      { toolCallId: "t", title: "rm", kind: "delete", rawInput: { f: 1 } },
      1,
      1000,
    );
    foldPermissionToolCall(acp, { toolCallId: "t", title: "", rawInput: {} }, 2, 2000);
    expect(call(acp)).toMatchObject({ title: "rm", kind: "delete", announced: false });
    expect(call(acp)?.details.rawInput?.value).toEqual({ f: 1 });
  });
});

describe("the answer that opens an agent session", () => {
  const setup = {
    sessionId: "s",
    modes: {
      currentModeId: "ask",
      availableModes: [
        { id: "ask", name: "Ask" },
        { id: "code", name: "Code" },
      ],
    },
    models: { currentModelId: "m1", availableModels: [{ modelId: "m1", name: "M1", _meta: { x: 1 } }] },
    configOptions: [
      {
        id: "effort",
        name: "Effort",
        type: "select",
        currentValue: "low",
        options: [{ value: "low", name: "Low" }],
      },
    ],
    _meta: { vendor: true },
  } satisfies NewSessionResponse & Record<string, unknown>;

  test("reports modes, models and options for the next client", () => {
    const acp = initialAgentReport();
    foldSetup(acp, setup, 3);
    expect(acp.modes?.current).toBe("ask");
    expect(acp.meta).toEqual({ seq: 3, chars: 15, value: { vendor: true } });
    const { modes, models, configOptions } = setup;
    expect(currentSetup(acp, nowhere)).toEqual({ modes, models, configOptions });
  });

  test("leaves members it does not mention, because updates may have come before it", () => {
    const acp = after({ sessionUpdate: "current_mode_update", currentModeId: "plan" });
    foldSetup(acp, { sessionId: "s", modes: null }, 3);
    expect(acp.modes?.current).toBe("plan");
    expect(currentSetup(acp, nowhere)).toEqual({ modes: { currentModeId: "plan", availableModes: [] } });
    expect(currentSetup(initialAgentReport(), nowhere)).toEqual({});
  });

  test("keeps names of over-long lists, and never half a list", () => {
    const acp = initialAgentReport();
    const availableModels = Array.from({ length: 3000 }, (_, i) => ({
      modelId: `m${i}`,
      name: `Model ${i}`,
    }));
    foldSetup(acp, { models: { currentModelId: "m1", availableModels } }, 1);
    expect(acp.models?.available).toMatchObject({ total: 3000, truncated: true });
    expect(acp.models?.available.items[1]).toEqual({ modelId: "m1", name: "Model 1" });
    expect(JSON.stringify(acp.models).length).toBeLessThan(STATE_BUDGET.modelsChars + 100);
    expect(currentSetup(acp, nowhere)).toEqual({});
  });

  test("has over-long lists whole for the next client, with the present choices", () => {
    const acp = initialAgentReport();
    const availableModels = Array.from({ length: 500 }, (_, i) => ({
      modelId: `m${i}`,
      name: "M".repeat(100),
    }));
    const options = availableModels.map(({ modelId: value, name }) => ({ value, name }));
    const option = {
      id: "model",
      name: "Model",
      category: "model",
      type: "select",
      currentValue: "m1",
      options,
    };
    const result = { models: { currentModelId: "m1", availableModels }, configOptions: [option] };
    foldSetup(acp, result, 3);
    const log = [result, { configOptions: [{ ...option, currentValue: "m400" }] }].map((told) => ({
      frame: mustReadFrame(JSON.stringify({ jsonrpc: "2.0", id: 1, result: told })),
    }));
    const find = (seq: number) => log[seq - 3];
    expect(currentSetup(acp, find)).toEqual(result);
    foldResult(acp, "session/set_config_option", undefined, log[1]?.frame.value.result, 4);
    expect(currentSetup(acp, find)).toEqual({
      models: { currentModelId: "m400", availableModels },
      configOptions: [{ ...option, currentValue: "m400" }],
    });
    const update = {
      sessionUpdate: "config_option_update",
      configOptions: [{ ...option, currentValue: "m9" }],
    };
    foldUpdate(acp, update, 5, 0);
    const raw = JSON.stringify({
      jsonrpc: "2.0",
      method: "session/update",
      params: { sessionId: "s", update },
    });
    log.push({ frame: mustReadFrame(raw) });
    expect(currentSetup(acp, find)).toMatchObject({ configOptions: [{ currentValue: "m9", options }] });
  });

  test("is followed by the choices of clients, whether or not the agent sends an update", () => {
    const acp = initialAgentReport();
    foldSetup(acp, setup, 1);
    const answer = (method: string, params: unknown, result: unknown) =>
      foldResult(acp, method, choiceIn(method, params), result, 2);
    answer("session/set_mode", { sessionId: "s", modeId: "code" }, {});
    answer("session/set_model", { sessionId: "s", modelId: "m2" }, null);
    answer(
      "session/set_config_option",
      {},
      { configOptions: [{ ...setup.configOptions[0], currentValue: "x" }] },
    );
    answer("session/set_title", { title: "t " }, { title: "t" });
    answer("session/set_mode", { modeId: 5 }, {});
    expect(acp.modes).toMatchObject({ current: "code", available: { total: 2 } });
    expect(acp.models?.current).toBe("m2");
    expect(acp.configOptions?.items[0]?.currentValue).toBe("x");
    expect(acp.info.title).toBe("t");
  });
});

describe("an update", () => {
  test("replaces the plan", () => {
    const entry = { content: "a", priority: "high", status: "pending" } as const;
    const acp = after(
      { sessionUpdate: "plan", entries: [entry, entry] },
      { sessionUpdate: "plan", entries: [{ ...entry, status: "completed" }] },
    );
    expect(acp.plan).toEqual({ items: [{ ...entry, status: "completed" }], total: 1, truncated: false });
  });

  test("adds, changes or removes a plan that has an id", () => {
    const acp = after(
      { sessionUpdate: "plan_update", plan: { type: "markdown", planId: "p", content: "# one" } },
      { sessionUpdate: "plan_update", plan: { type: "file", planId: "q", uri: "file:///q" } },
      { sessionUpdate: "plan_update", plan: { type: "markdown", planId: "p", content: "# two" } },
      { sessionUpdate: "plan_removed", planId: "q" },
    );
    expect(acp.plans).toMatchObject([{ planId: "p", plan: { seq: 3, value: { content: "# two" } } }]);
  });

  test("replaces the commands, however long the list", () => {
    const acp = after({
      sessionUpdate: "available_commands_update",
      availableCommands: [{ name: "web", description: "Search", input: { hint: "query" } }],
    });
    expect(acp.commands?.items).toEqual([{ name: "web", description: "Search", input: { hint: "query" } }]);
    const availableCommands = Array.from({ length: 500 }, (_, i) => ({
      name: `command-${i}`,
      description: `${i} `.repeat(300),
    }));
    fold(acp, { sessionUpdate: "available_commands_update", availableCommands });
    expect(acp.commands).toMatchObject({ total: 500, truncated: true });
    expect(acp.commands?.items[0]).toEqual({ name: "command-0", description: "0 ".repeat(100) });
    expect(JSON.stringify(acp.commands).length).toBeLessThan(STATE_BUDGET.commandsChars + 100);
  });

  test("changes the mode and the options", () => {
    const acp = after(
      { sessionUpdate: "current_mode_update", currentModeId: "code" },
      {
        sessionUpdate: "config_option_update",
        configOptions: [{ id: "fast", name: "Fast", type: "boolean", currentValue: true }],
      },
    );
    expect(acp.modes?.current).toBe("code");
    expect(acp.configOptions?.items).toMatchObject([{ id: "fast", currentValue: true }]);
  });

  test("patches the session's info: an omitted member is unchanged, a null member is cleared", () => {
    const acp = after(
      {
        sessionUpdate: "session_info_update",
        title: "T",
        updatedAt: "2026-01-01T00:00:00Z",
        _meta: { a: 1 },
      },
      { sessionUpdate: "session_info_update", updatedAt: null },
    );
    expect(acp.info).toEqual({ title: "T", updatedAt: null, meta: { seq: 1, chars: 7, value: { a: 1 } } });
    fold(acp, { sessionUpdate: "session_info_update", title: null, _meta: null });
    expect(acp.info).toEqual({ title: null, updatedAt: null, meta: null });
  });

  test("carries totals of usage and cost", () => {
    const acp = after(
      { sessionUpdate: "usage_update", used: 100, size: 1000, cost: { amount: 0.5, currency: "USD" } },
      { sessionUpdate: "usage_update", used: 150, size: 1000 },
    );
    foldResult(
      acp,
      "session/prompt",
      undefined,
      { stopReason: "end_turn", usage: { totalTokens: 9, x: 1 } },
      3,
    );
    expect(acp.usage).toEqual({
      used: 150,
      size: 1000,
      cost: { amount: 0.5, currency: "USD" },
      tokens: { totalTokens: 9 },
      costs: { USD: { base: 0, last: 0.5 } },
      tokenMeters: { totalTokens: { base: 0, last: 9 } },
      days: [{ day: "1970-01-01", seq: 3, costs: { USD: 0.5 }, tokens: { totalTokens: 9 } }],
    });
  });

  test("reports a compaction, begun by whichever update names it first", () => {
    const acp = after(
      { sessionUpdate: "compaction_summary_chunk", compactionId: "c", content: text("…") },
      { sessionUpdate: "compaction_update", compactionId: "c", status: "failed", error: "too long" },
    );
    expect(acp.compaction).toEqual({
      compactionId: "c",
      status: "failed",
      error: "too long",
      seq: 1,
      startedAt: 1000,
    });
  });

  test("changes nothing if it has messages, notices or an unknown kind", () => {
    const acp = after(
      { sessionUpdate: "agent_message_chunk", content: text("a") },
      { sessionUpdate: "agent_thought_chunk", content: text("a") },
      { sessionUpdate: "user_message_chunk", content: text("a") },
      { sessionUpdate: "notice", severity: "info", title: "n" },
    );
    fold(acp, { sessionUpdate: "_vendor", plan: [] }, { sessionUpdate: "constructor" });
    expect(acp).toEqual(initialAgentReport());
  });

  test.each([null, 1, "tool_call", [], [{ sessionUpdate: "plan" }], {}, { sessionUpdate: {} }])(
    "that is malformed (%j) changes nothing",
    (garbage) => {
      expect(fold(initialAgentReport(), garbage)).toEqual(initialAgentReport());
    },
  );

  test("nested deeper than the stack is left in the log", () => {
    const deep = JSON.parse(`${"[".repeat(200_000)}${"]".repeat(200_000)}`) as unknown;
    const acp = fold(
      initialAgentReport(),
      { sessionUpdate: "tool_call", toolCallId: "t", rawInput: deep, content: deep },
      { sessionUpdate: "plan", entries: deep },
      { sessionUpdate: "available_commands_update", availableCommands: [{ name: "x", input: deep }] },
    );
    expect(call(acp)?.details.rawInput).toEqual({ seq: 1, chars: 0 });
    expect(acp.commands?.items).toEqual([{ name: "x" }]);
    expect(() => JSON.stringify(acp)).not.toThrow();
  });
});
