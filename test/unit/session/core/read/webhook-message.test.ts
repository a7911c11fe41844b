import { describe, expect, test } from "vitest";
import { notification } from "../../../../../src/protocol/errors.ts";
import { mustReadFrame } from "../../../../../src/protocol/frame.ts";
import { DEFAULT_LIMITS } from "../../../../../src/protocol/limits.ts";
import { ASK_ALWAYS } from "../../../../../src/protocol/permission-policy.ts";
import {
  WEBHOOK_MESSAGE_TYPES,
  type WebhookMessageType,
} from "../../../../../src/protocol/webhook-messages.ts";
import { unavailable } from "../../../../../src/session/core/decide/agent-process.ts";
import { Batch } from "../../../../../src/session/core/decide/batch.ts";
import { answerPermission } from "../../../../../src/session/core/decide/permissions.ts";
import { rulingOn } from "../../../../../src/session/core/decide/policy.ts";
import { processEnded } from "../../../../../src/session/core/decide/process-end.ts";
import { askQuestion } from "../../../../../src/session/core/decide/questions.ts";
import { dropQueued } from "../../../../../src/session/core/decide/queue.ts";
import { endTurn } from "../../../../../src/session/core/decide/turns.ts";
import { webhookMessagesFor } from "../../../../../src/session/core/read/webhook-message.ts";
import { initialState, type RequestToAgent } from "../../../../../src/session/core/state/state.ts";
import { STATE_BUDGET } from "../../../../../src/session/core/state/state-budget.ts";

const AT = Date.parse("2030-01-01T00:00:00Z");
const TIME = "2030-01-01T00:00:00.000Z";
const ABOUT = { workspace: "w", sessionId: "s", sessionTitle: "A title" };
const OPTIONS = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];

/** A session in mid-turn, and a batch that is not yet recorded. */
function running() {
  const state = initialState("s");
  const before = new Batch(state, 1000, DEFAULT_LIMITS, () => undefined);
  const identity = { tenant: "t", owner: "o", workspace: "w", agent: "codex", cwd: "/w", request: 1 };
  before.fact("gateway", "session.requested", identity);
  const context = { acpSessionId: "agent-session", agentSessionId: null, turnId: null };
  before.fact("gateway", "session.created", { acpSessionId: "agent-session" }, context);
  const turn = { ...context, turnId: "turn_1" };
  const prompt = before.frame("client", "out", request("session/prompt", {}), { connection: "c" }, turn);
  before.fact("gateway", "turn.started", { turnId: "turn_1", prompt }, turn);
  state.report.info.title = "A title";
  state.run = { id: "r", initialized: true, io: "host" } as NonNullable<typeof state.run>;
  const batch = new Batch(state, AT, DEFAULT_LIMITS, (seq) =>
    before.events.find((event) => event.seq === seq),
  );
  const messages = (wanted: readonly WebhookMessageType[] = WEBHOOK_MESSAGE_TYPES) =>
    webhookMessagesFor(state, batch.events, wanted, DEFAULT_LIMITS.answerLinks).map(({ message }) => message);
  return { state, batch, messages, prompt };
}

function request(method: string, params: unknown, id: unknown = 7): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}

/** The events of an agent's permission request, and of the policy's answer if there is one. */
function ask(batch: Batch, more: { toolCall?: object; options?: unknown[] } = {}): number {
  const toolCall = { toolCallId: "t1", title: "Write a file", kind: "edit" };
  const params = { sessionId: "agent-session", toolCall, options: OPTIONS, ...more };
  const ruling = rulingOn(batch.state, params);
  const seq = batch.frame("agent", "in", request("session/request_permission", params));
  batch.fact("gateway", "permission.requested", {
    request: seq,
    toolCall: params.toolCall,
    options: params.options,
  });
  if (ruling) answerPermission(batch, seq, ruling.outcome, ruling.decision);
  return seq;
}

/** The agent's answer to the prompt. */
function answer(batch: Batch, prompt: number, said: object): void {
  const asked = batch.state.awaitingAgent[prompt] as RequestToAgent;
  const seq = batch.frame("agent", "in", JSON.stringify({ jsonrpc: "2.0", id: prompt, ...said }), {
    re: prompt,
  });
  const { frame } = batch.frameAt(seq);
  if (frame.kind !== "response") throw new Error("not a response");
  endTurn(batch, prompt, asked, frame);
}

describe("question.pending", () => {
  const ask = (batch: Batch, params: object) => {
    const frame = mustReadFrame(request("elicitation/create", { sessionId: "agent-session", ...params }));
    if (frame.kind === "request") askQuestion(batch, frame);
  };

  test("says what is asked, with invisible characters marked", () => {
    const { batch, messages } = running();
    const requestedSchema = { type: "object", properties: {} };
    ask(batch, { mode: "form", message: "Who\u202e?", requestedSchema });
    const question = {
      id: "s:5",
      mode: "form",
      message: "Who⟨U+202E⟩?",
      toolCallId: null,
      requestedSchema,
      url: null,
    };
    expect(messages()).toEqual([
      { type: "question.pending", timestamp: TIME, data: { ...ABOUT, question, requestedAt: TIME } },
    ]);
  });

  test("leaves out forms and addresses that are too long", () => {
    const { batch, messages } = running();
    ask(batch, { mode: "url", message: "m".repeat(10_000), url: `https://${"x".repeat(5000)}.test` });
    const long = { type: "object", properties: { a: { type: "string", description: "d".repeat(20_000) } } };
    ask(batch, { mode: "form", message: "?", requestedSchema: long });
    const [visit, form] = messages().map(({ data }) => ("question" in data ? data.question : undefined));
    expect(visit).toMatchObject({ mode: "url", url: null });
    expect(visit?.message).toHaveLength(STATE_BUDGET.detailChars);
    expect(form).toMatchObject({ mode: "form", requestedSchema: null });
  });
});

describe("permission.pending", () => {
  test("names the question and its options", () => {
    const { batch, messages } = running();
    const seq = ask(batch);
    expect(messages()).toEqual([
      {
        type: "permission.pending",
        timestamp: TIME,
        data: {
          ...ABOUT,
          permission: {
            id: `s:${seq}`,
            toolCallId: "t1",
            title: "Write a file",
            kind: "edit",
            details: [
              { name: "title", text: "Write a file", hiddenChars: 0 },
              { name: "kind", text: "edit", hiddenChars: 0 },
            ],
            options: OPTIONS,
          },
          requestedAt: TIME,
        },
      },
    ]);
  });

  test("is not sent for a request the workspace's policy answers", () => {
    const { state, batch, messages } = running();
    state.policy = { ...ASK_ALWAYS, byKind: { edit: "reject" } };
    ask(batch);
    expect(batch.events.map(({ kind }) => kind)).toContain("permission.responded");
    expect(messages()).toEqual([]);
  });

  test("is not sent for a request that ends in the same batch", () => {
    const { batch, messages } = running();
    ask(batch);
    processEnded(batch, { code: 1, signal: null, stderr: "" });
    expect(messages().map(({ type }) => type)).toEqual(["agent.failed", "turn.ended"]);
  });

  test("stays short, whatever the agent sends", () => {
    const { batch, messages } = running();
    const many = Array.from({ length: 1000 }, (_, n) => ({ optionId: `o${n}`, name: "x".repeat(10_000) }));
    const options = [{ optionId: "i".repeat(5000), name: "no id is cut" }, 7, ...many];
    ask(batch, { options, toolCall: { toolCallId: "t", title: "y".repeat(1e6) } });
    const [message] = messages();
    if (message?.type !== "permission.pending") throw new Error("There is no webhook message");
    expect(message.data.permission.options).toHaveLength(DEFAULT_LIMITS.answerLinks);
    expect(message.data.permission.options[0]).toEqual({
      optionId: "o0",
      name: `${"x".repeat(STATE_BUDGET.labelChars - 1)}…`,
      kind: null,
    });
    const { details } = message.data.permission;
    expect(details.map(({ name }) => name)).toEqual(["title", "kind"]);
    expect((details[0]?.text.length ?? 0) + (details[0]?.hiddenChars ?? 0)).toBe(1e6);
    expect(
      JSON.stringify({
        ...message,
        data: { ...message.data, permission: { ...message.data.permission, details: [] } },
      }).length,
    ).toBeLessThan(10_000);
    expect(JSON.stringify(details).length).toBeLessThan(20_000);
  });

  test("has the whole command, also one that only the tool call named, with invisible characters marked", () => {
    const { batch, messages } = running();
    const command = `echo ${"a".repeat(1000)} \u202e; rm -rf /`;
    const update = {
      sessionUpdate: "tool_call",
      toolCallId: "t2",
      title: "Echo\u200b",
      rawInput: { command },
    };
    batch.frame("agent", "in", notification("session/update", { sessionId: "agent-session", update }));
    ask(batch, { toolCall: { toolCallId: "t2" } });
    const [message] = messages();
    if (message?.type !== "permission.pending") throw new Error("There is no webhook message");
    const { title, details } = message.data.permission;
    expect(title).toBe("Echo⟨U+200B⟩");
    expect(details.find(({ name }) => name === "command")?.text).toBe(
      `echo ${"a".repeat(1000)} ⟨U+202E⟩; rm -rf /`,
    );
  });
});

describe("turn.ended", () => {
  test.each([
    ["end_turn", "completed"],
    ["cancelled", "cancelled"],
    ["refusal", "completed"],
  ])("reports %s as %s", (stopReason, outcome) => {
    const { batch, messages, prompt } = running();
    answer(batch, prompt, { result: { stopReason } });
    const data = { ...ABOUT, turnId: "turn_1", outcome, stopReason };
    expect(messages()).toEqual([{ type: "turn.ended", timestamp: TIME, data }]);
  });

  test("has the code and message of a failed turn's error, and nothing else of the error", () => {
    const { batch, messages, prompt } = running();
    const error = { code: -32000, message: "Out of luck", data: { stderr: "a secret" } };
    answer(batch, prompt, { error });
    const data = {
      ...ABOUT,
      turnId: "turn_1",
      outcome: "failed",
      error: { code: -32000, message: "Out of luck" },
    };
    expect(messages()).toEqual([{ type: "turn.ended", timestamp: TIME, data }]);
  });

  test("is sent for a prompt that never left the queue", () => {
    const { batch, messages, state } = running();
    const waiting = batch.frame("client", "out", request("session/prompt", {}), {
      connection: "c",
      stop: "held",
    });
    state.queue = [{ seq: waiting, turnId: "turn_2" }];
    dropQueued(batch, { seq: waiting, turnId: "turn_2" }, { code: -32800, message: "Taken out" });
    expect(messages()).toMatchObject([
      { type: "turn.ended", data: { turnId: "turn_2", outcome: "failed", error: { code: -32800 } } },
    ]);
  });
});

describe("agent.failed", () => {
  test("says how the agent failed, and never what the process has printed", () => {
    const { batch, messages } = running();
    processEnded(batch, { code: 3, signal: null, stderr: "a secret" });
    const message = "The agent process ended: exit code 3";
    expect(messages()).toEqual([
      {
        type: "agent.failed",
        timestamp: TIME,
        data: { ...ABOUT, agent: "codex", detailCode: "agent_exited", message },
      },
      {
        type: "turn.ended",
        timestamp: TIME,
        data: { ...ABOUT, turnId: "turn_1", outcome: "failed", error: { code: -32603, message } },
      },
    ]);
    expect(JSON.stringify(messages())).not.toContain("a secret");
  });

  test("is sent for an agent that cannot be started", () => {
    const { batch, messages } = running();
    unavailable(batch, "No host", "a secret");
    expect(messages(["agent.failed"])).toMatchObject([
      { data: { detailCode: "agent_unavailable", message: "No host" } },
    ]);
  });

  test("is not sent for a violation of a healthy agent", () => {
    const { batch, messages } = running();
    const error = { code: null, detailCode: null };
    batch.fact("gateway", "error", { ...error, origin: "agent", violation: "noMessage", message: "noise" });
    batch.fact("gateway", "error", { ...error, origin: "client", message: "somebody else" });
    expect(messages()).toEqual([]);
  });
});

test("an event no webhook wants makes no webhook message", () => {
  const { batch, messages } = running();
  processEnded(batch, { code: 1, signal: null, stderr: "" });
  expect(messages(["turn.ended"]).map(({ type }) => type)).toEqual(["turn.ended"]);
  expect(messages(["permission.pending"])).toEqual([]);
});
