import fc from "fast-check";
import { ulid } from "ulid";
import { describe, expect, it } from "vitest";
import { type Frame, readFrame } from "../../../../../src/protocol/frame.ts";
import { isLineFault, readEnvelope } from "../../../../../src/session/core/events/envelope.ts";
import {
  envelope,
  eventId,
  eventIdPrefix,
  isFrame,
  type LogEvent,
} from "../../../../../src/session/core/events/event.ts";
import { project } from "../../../../../src/session/core/read/projection.ts";
import {
  redacted,
  redactedLine,
  redactedOptions,
  redactedResult,
  sessionFor,
} from "../../../../../src/session/core/read/redaction/redaction.ts";
import { apply } from "../../../../../src/session/core/state/fold.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";
import { faults } from "../../../../fixtures/schema.ts";

type Json = Record<string, unknown>;

const SESSION = "11111111-2222-4333-8444-555555555555";
const SECRET = "hunter2";
const MARK = { "acp-edge/redacted": true };
const PLACE = {
  seq: 1,
  at: Date.parse("2026-01-02T03:04:05.678Z"),
  context: { acpSessionId: "s", agentSessionId: null, turnId: null },
};

function frame(direction: "in" | "out", message: Json, source = direction === "in" ? "agent" : "client") {
  const raw = JSON.stringify({ jsonrpc: "2.0", ...message });
  const event: LogEvent = {
    ...PLACE,
    kind: "acp.frame",
    source,
    direction,
    frame: readFrame(raw) as Frame,
    route: {},
  };
  return event;
}

function note(kind: string, payload: Json): LogEvent {
  return { ...PLACE, kind, source: "gateway", payload };
}

const update = (value: unknown, source?: string) =>
  frame("in", { method: "session/update", params: { sessionId: "s", update: value } }, source);
const asks = (method: string, params: unknown) => frame("in", { id: 7, method, params });
const answers = (direction: "in" | "out", result: unknown) => frame(direction, { id: 7, result });
const says = (method: string, params: unknown) => frame("out", { id: 7, method, params });

/** What a reader has of an event: of an ACP message the message, of a note the payload. */
function seen(event: LogEvent): Json {
  const shown = redacted(event);
  return isFrame(shown) ? (shown.frame.value as Json) : (shown.payload as Json);
}
const paramsOf = (event: LogEvent) => seen(event).params as Json;
const updateIn = (event: LogEvent) => paramsOf(event).update as Json;

function lineOf(event: LogEvent): string {
  return envelope(event, SESSION, eventId(eventIdPrefix(ulid(event.at)), 0));
}

const SAID = { type: "text", text: "as it was said" };
const TOOL = { toolCallId: "c", title: "Read a file", kind: "read", status: "completed" };
const LOCATIONS = [{ path: "/a", line: 3 }];
const OPTION = { optionId: "o", name: "Allow", kind: "allow_once" };

/** Messages and notes of all kinds that have nothing to hide. */
const HARMLESS: readonly LogEvent[] = [
  update({ sessionUpdate: "user_message_chunk", content: SAID, messageId: "m" }),
  update({ sessionUpdate: "agent_message_chunk", content: { ...SAID, annotations: { audience: ["user"] } } }),
  update({
    sessionUpdate: "agent_message_chunk",
    content: { type: "image", data: "AA==", mimeType: "image/png" },
  }),
  update({
    sessionUpdate: "agent_message_chunk",
    content: { type: "resource", resource: { uri: "file:///a", text: "t", mimeType: "text/plain" } },
  }),
  update({ sessionUpdate: "agent_thought_chunk", content: SAID }),
  update({ sessionUpdate: "tool_call", ...TOOL, locations: LOCATIONS }),
  update({ sessionUpdate: "tool_call_update", toolCallId: "c", status: "failed" }),
  update({ sessionUpdate: "plan", entries: [{ content: "do it", priority: "high", status: "pending" }] }),
  update({
    sessionUpdate: "available_commands_update",
    availableCommands: [{ name: "help", description: "helps", input: { hint: "on what" } }],
  }),
  update({ sessionUpdate: "current_mode_update", currentModeId: "m" }),
  update({
    sessionUpdate: "config_option_update",
    configOptions: [
      {
        ...{ id: "model", name: "Model", category: "model", type: "select", currentValue: "a" },
        options: [{ value: "a", name: "A", description: "the first" }],
      },
      {
        ...{ id: "depth", name: "Depth", type: "select", currentValue: "x" },
        options: [{ group: "g", name: "G", options: [{ value: "x", name: "X" }] }],
      },
      { id: "fast", name: "Fast", type: "boolean", currentValue: true },
    ],
  }),
  update({ sessionUpdate: "session_info_update", title: "A title", updatedAt: "2026-01-02T03:04:05Z" }),
  update({ sessionUpdate: "usage_update", used: 1, size: 2, cost: { amount: 0.1, currency: "EUR" } }),
  update({ sessionUpdate: "notice", severity: "info", title: "Note", description: "this" }),
  update({ sessionUpdate: "compaction_update", compactionId: "k", status: "completed", summary: [SAID] }),
  update({ sessionUpdate: "compaction_summary_chunk", compactionId: "k", content: SAID }),
  asks("session/request_permission", {
    sessionId: "s",
    toolCall: { ...TOOL, locations: LOCATIONS },
    options: [OPTION],
  }),
  asks("fs/read_text_file", { sessionId: "s", path: "/a" }),
  frame("in", { method: "$/cancel_request", params: { requestId: 3 } }),
  frame("in", { method: "elicitation/complete", params: { elicitationId: "e" } }),
];

/** The same that the JSON schema of the protocol does not have, or that are no client's to get. */
const OTHERS: readonly LogEvent[] = [
  update({ sessionUpdate: "plan_update", plan: { type: "markdown", planId: "p", content: "# do it" } }),
  update({ sessionUpdate: "plan_removed", planId: "p" }),
  update({ sessionUpdate: "subagent_update", sessionId: "t", title: "T", state: { state: "running" } }),
  update({ sessionUpdate: "session_message", messageId: "m", senderSessionId: "s" }),
  update(
    { sessionUpdate: "session_info_update", _meta: { "acp-edge/event": "e", "acp-edge/message": "m" } },
    "gateway",
  ),
  asks("terminal/output", { sessionId: "s", terminalId: "t" }),
  answers("in", { stopReason: "end_turn", usage: { totalTokens: 1, inputTokens: 1, outputTokens: 0 } }),
  answers("in", {
    sessionId: "s",
    modes: { currentModeId: "m", availableModes: [{ id: "m", name: "M" }] },
    models: { currentModelId: "m", availableModels: [{ modelId: "m", name: "M" }] },
    configOptions: [],
  }),
  answers("in", {
    protocolVersion: 1,
    agentInfo: { name: "a", version: "1" },
    authMethods: [{ id: "l", name: "Log in", description: "here" }],
  }),
  frame("in", { id: 7, error: { code: -32603, message: "It went wrong" } }),
  answers("out", { outcome: { outcome: "selected", optionId: "o" } }),
  answers("out", { action: "decline" }),
  says("initialize", { protocolVersion: 1, clientInfo: { name: "c", version: "1" } }),
  says("authenticate", { methodId: "m" }),
  says("session/new", { cwd: "/", additionalDirectories: ["/b"], mcpServers: [] }),
  says("session/load", { sessionId: "s", cwd: "/", mcpServers: [] }),
  says("session/set_mode", { sessionId: "s", modeId: "m" }),
  says("session/set_config_option", { sessionId: "s", configId: "fast", type: "boolean", value: true }),
  frame("out", { method: "session/cancel", params: { sessionId: "s" } }),
  note("session.requested", { tenant: "t", owner: "o", workspace: "w", agent: "a", cwd: "/", request: 1 }),
  note("runtime.connected", { run: "r", agent: "a", host: "h", root: "/", wish: 1, delivered: 0 }),
  note("queue.owner.stopped", { run: "r", code: 1, signal: null, reason: "exit code 1", expected: false }),
  note("turn.failed", { turnId: "t", prompt: 1, reason: "agent_exited", error: { code: 1, message: "m" } }),
  note("permission.requested", { request: 1, toolCall: TOOL, options: [OPTION] }),
  note("permission.responded", {
    request: 1,
    answer: 2,
    outcome: { outcome: "cancelled" },
    by: "x",
    why: "y",
  }),
  note("client.fs.read", { request: 1, answer: 2, ok: true }),
  note("error", { origin: "agent", code: 1, detailCode: "agent_exited", message: "m" }),
  note("runtime.noise", {}),
  note("vendor.unheard_of", {}),
];

const PROMPT = says("session/prompt", {
  sessionId: "s",
  prompt: [{ type: "resource", resource: { uri: "file:///a", text: SECRET }, _meta: { of: "a person" } }],
  _meta: { "acp-edge/idempotencyKey": "k" },
});

describe("what has nothing to hide", () => {
  it.each([...HARMLESS, ...OTHERS, PROMPT].map((event) => [lineOf(event), event] as const))(
    "stays as it is: %s",
    (line, event) => {
      expect(redacted(event)).toBe(event);
      expect(redactedLine(line, event)).toBe(line);
    },
  );

  it("keeps the text of its sender", () => {
    const raw = '{ "jsonrpc":"2.0",\n"id":12345678901234567890, "result": {"stopReason" :"end_turn"} }';
    const event = { ...answers("in", {}), frame: readFrame(raw) as Frame } as LogEvent;
    expect(redacted(event)).toBe(event);
  });
});

describe("what tools were given, and what came out", () => {
  const details = {
    content: [{ type: "diff", path: "/a", oldText: null, newText: SECRET }],
    rawInput: { command: SECRET },
    rawOutput: SECRET,
    name: SECRET,
    _meta: { claudeCode: { toolResponse: SECRET } },
  };

  it("is no part of a tool call", () => {
    for (const sessionUpdate of ["tool_call", "tool_call_update"])
      expect(updateIn(update({ sessionUpdate, ...TOOL, ...details, locations: LOCATIONS }))).toEqual({
        sessionUpdate,
        ...TOOL,
        locations: LOCATIONS,
        _meta: MARK,
      });
  });

  it("is no part of a permission request, in the message or beside it", () => {
    const params = {
      sessionId: "s",
      toolCall: { ...TOOL, ...details },
      options: [{ ...OPTION, _meta: details }],
    };
    const left = { toolCall: { ...TOOL, _meta: MARK }, options: [{ ...OPTION, _meta: MARK }] };
    expect(paramsOf(asks("session/request_permission", params))).toEqual({ sessionId: "s", ...left });
    const { toolCall, options } = params;
    expect(seen(note("permission.requested", { request: 1, toolCall, options }))).toEqual({
      request: 1,
      ...left,
    });
    expect(JSON.parse(redactedOptions(JSON.stringify(options)))).toEqual(left.options);
  });

  it("is no part of what is asked of files and terminals", () => {
    const file = { sessionId: "s", path: "/a" };
    expect(paramsOf(asks("fs/read_text_file", { ...file, limit: 3 }))).toEqual({ ...file, _meta: MARK });
    expect(paramsOf(asks("fs/write_text_file", { ...file, content: SECRET }))).toEqual({
      ...file,
      content: "",
      _meta: MARK,
    });
    const command = { sessionId: "s", command: SECRET, args: [SECRET], env: [], cwd: SECRET };
    expect(paramsOf(asks("terminal/create", command))).toEqual({ sessionId: "s", command: "", _meta: MARK });
  });

  it("is no part of the answers to the agent", () => {
    for (const result of [{ content: SECRET }, { output: SECRET, truncated: false }, { terminalId: SECRET }])
      expect(seen(answers("out", result)).result).toEqual({ _meta: MARK });
    expect(seen(answers("out", { action: "accept", content: { name: SECRET } })).result).toEqual({
      action: "accept",
      _meta: MARK,
    });
    for (const result of [SECRET, [SECRET]])
      expect(seen(answers("out", result)).result).toEqual({ _meta: MARK });
    expect(seen(frame("out", { id: 7, error: { code: 1, message: SECRET, data: SECRET } })).error).toEqual({
      code: 1,
      message: "",
      data: MARK,
    });
  });

  it("is not in an error's data", () => {
    const error = { code: 1, message: "It ended", data: { stderr: SECRET } };
    const left = { code: 1, message: "It ended", data: MARK };
    expect(seen(frame("in", { id: 7, error })).error).toEqual(left);
    const failed = { turnId: "t", prompt: 1, reason: "agent_exited" };
    expect(seen(note("turn.failed", { ...failed, error }))).toEqual({ ...failed, error: left });
  });

  it("is not what the process wrote beside its messages", () => {
    expect(seen(note("runtime.noise", { text: SECRET }))).toEqual({ _meta: MARK });
    expect(seen(note("error", { message: "It ended", stderr: SECRET }))).toEqual({
      message: "It ended",
      _meta: MARK,
    });
    const stopped = { run: "r", code: 1, signal: null, reason: "exit code 1", expected: false };
    expect(seen(note("queue.owner.stopped", { ...stopped, stderr: SECRET }))).toEqual({
      ...stopped,
      _meta: MARK,
    });
    expect(seen(frame("in", { words: SECRET }))).toEqual({ jsonrpc: "2.0", _meta: MARK });
  });

  it("is not in the settings of tools", () => {
    const params = { cwd: "/", mcpServers: [{ name: "n", command: "c", args: [SECRET], env: [] }] };
    expect(paramsOf(says("session/new", { ...params, _meta: { systemPrompt: SECRET } }))).toEqual({
      cwd: "/",
      mcpServers: [],
      _meta: MARK,
    });
    expect(paramsOf(says("authenticate", { methodId: "m", _meta: { "api-key": SECRET } }))).toEqual({
      methodId: "m",
      _meta: MARK,
    });
  });

  it("may be in anything that nobody knows", () => {
    expect(updateIn(update({ sessionUpdate: "vendor_update", title: SECRET }))).toEqual({
      sessionUpdate: "vendor_update",
      _meta: MARK,
    });
    for (const event of [
      asks("_vendor/ask", { sessionId: "s", text: SECRET }),
      frame("in", { method: "_vendor/tell", params: { sessionId: "s", text: SECRET } }),
      says("_vendor/ask", { sessionId: "s", text: SECRET }),
    ])
      expect(paramsOf(event)).toEqual({ sessionId: "s", _meta: MARK });
    expect(paramsOf(asks("_vendor/ask", [SECRET]))).toEqual({ _meta: MARK });
    expect(seen(note("vendor.unheard_of", { text: SECRET }))).toEqual({ _meta: MARK });
    const initialized = { protocolVersion: 1, agentCapabilities: { a: { _meta: SECRET } }, _meta: SECRET };
    expect(JSON.parse(redactedResult(JSON.stringify(initialized)))).toEqual({
      protocolVersion: 1,
      agentCapabilities: { a: { _meta: MARK } },
      _meta: MARK,
    });
  });

  it("is not what an agent says under the gateway's names", () => {
    const news = { sessionUpdate: "session_info_update", _meta: { "acp-edge/message": SECRET } };
    expect(updateIn(update(news))).toEqual({ sessionUpdate: "session_info_update", _meta: MARK });
  });
});

// ---- wherever it is put -------------------------------------------------------------------------------

/** Anything that has the secret in it somewhere, as a value or as a name. */
const junk: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constant(SECRET),
    fc.string().map((text) => `${text}${SECRET}`),
    fc.dictionary(fc.string(), tie("any"), { minKeys: 1, maxKeys: 3 }),
    tie("any").map((value) => ({ [SECRET]: value, _meta: value, content: value })),
    fc.array(tie("any"), { minLength: 1, maxLength: 3 }),
  ),
})).any;

/** Names that are known nowhere, or nowhere that this is put. */
const unknownName = fc.constantFrom(
  "_meta",
  "rawInput",
  "rawOutput",
  "vendor",
  "__proto__",
  "stderr",
  SECRET,
);

/** The objects in a message, from the outermost on. */
function objectsIn(value: unknown): Json[] {
  if (typeof value !== "object" || value === null) return [];
  const inside = Object.values(value).flatMap(objectsIn);
  return Array.isArray(value) ? inside : [value as Json, ...inside];
}

/** The same event with one more member in one of its objects. */
function withMore(event: LogEvent, which: number, name: string, value: unknown): LogEvent {
  const body = JSON.parse(isFrame(event) ? event.frame.raw : JSON.stringify(event.payload)) as Json;
  const objects = objectsIn(body);
  const target = objects[which % objects.length] as Json;
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
  if (!isFrame(event)) return { ...event, payload: body };
  return { ...event, frame: readFrame(JSON.stringify(body)) as Frame };
}

function expectHidden(event: LogEvent): void {
  const shown = redacted(event);
  expect(isFrame(shown) ? shown.frame.raw : JSON.stringify(shown.payload)).not.toContain(SECRET);
  const line = redactedLine(lineOf(event), event);
  expect(line).not.toContain(SECRET);
  const read = readEnvelope(line);
  if (isLineFault(read)) throw new Error(read.fault);
  expect(lineOf(shown)).toContain(JSON.stringify(MARK));
}

describe("a secret", () => {
  it("is never shown that is added to a message or a note, wherever that is", () => {
    const events = fc.constantFrom(...HARMLESS, ...OTHERS);
    fc.assert(
      fc.property(events, fc.nat(), unknownName, junk, (event, which, name, value) => {
        const more = withMore(event, which, name, value);
        const shown = redacted(more);
        expect(isFrame(shown) ? shown.frame.raw : JSON.stringify(shown.payload)).not.toContain(SECRET);
        expect(redactedLine(lineOf(more), more)).not.toContain(SECRET);
      }),
      { numRuns: 2000 },
    );
  });

  const hidden: Record<string, (value: unknown) => LogEvent> = {
    "a tool's content": (content) => update({ sessionUpdate: "tool_call", ...TOOL, content }),
    "a tool's input": (rawInput) => update({ sessionUpdate: "tool_call", ...TOOL, rawInput }),
    "a tool's output": (rawOutput) =>
      update({ sessionUpdate: "tool_call_update", toolCallId: "c", rawOutput }),
    "a chunk's _meta": (_meta) => update({ sessionUpdate: "agent_message_chunk", content: SAID, _meta }),
    "an unknown update": (value) => update({ sessionUpdate: "vendor_update", value }),
    "an unknown content block": (value) =>
      update({ sessionUpdate: "agent_message_chunk", content: { type: "vendor", value } }),
    "a message to another agent": (content) =>
      update({ sessionUpdate: "session_message", messageId: "m", content }),
    "a file that is written": (content) =>
      asks("fs/write_text_file", { sessionId: "s", path: "/a", content }),
    "a command": (command) => asks("terminal/create", { sessionId: "s", command, args: [command] }),
    "a form": (message) =>
      asks("elicitation/create", { sessionId: "s", mode: "form", message, requestedSchema: message }),
    "a form's address": (url) =>
      asks("elicitation/create", { sessionId: "s", mode: "url", message: "", elicitationId: "e", url }),
    "an unknown request of the agent": (params) => asks("_vendor/ask", { params }),
    "an unknown request of a client": (params) => says("_vendor/ask", { params }),
    "an unknown answer of the agent": (value) => answers("in", { value }),
    "the agent's answer, as a whole": (value) => answers("in", [value]),
    "an answer to the agent": (content) => answers("out", { content }),
    "an answer to the agent, as a whole": (value) => answers("out", [value]),
    "an error's data": (data) => frame("in", { id: 7, error: { code: 1, message: "m", data } }),
    "an error to the agent": (message) => frame("out", { id: 7, error: { code: 1, message } }),
    "what is no message": (value) => frame("in", { value }),
    "MCP servers": (value) => says("session/new", { cwd: "/", mcpServers: [value] }),
    "an unknown note": (value) => note("vendor.unheard_of", { value }),
    noise: (text) => note("runtime.noise", { text }),
    "stderr in a note": (stderr) => note("error", { message: "m", stderr }),
    "stderr at the end": (stderr) => note("queue.owner.stopped", { run: "r", stderr }),
    "a failed turn's error": (data) =>
      note("turn.failed", { turnId: "t", error: { code: 1, message: "m", data } }),
  };
  it.each(Object.entries(hidden))("is never shown in %s", (_, make) => {
    fc.assert(fc.property(junk, (value) => expectHidden(make(value))));
  });

  it("is not shown of a line from elsewhere that says things twice, or more than it should", () => {
    const event = update({ sessionUpdate: "agent_message_chunk", content: SAID });
    const line = lineOf(event);
    const tool = `{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","content":"${SECRET}"}}}`;
    for (const odd of [
      line.replace("{", `{"extra":"${SECRET}",`),
      line.replace('"payload":{', `"payload":{"extra":{"a":"${SECRET}"},`),
      line.replace('"payload":{', `"payload":{"message":"${SECRET}","direction":"in"},"payload":{`),
      line.replace('"message":', `"message":${tool},"message":`),
      line.replace(
        '"params":',
        `"params":{"update":{"content":{"type":"text","text":"${SECRET}"}}},"params":`,
      ),
      line.replace('"direction":"in"', `"direction":"${SECRET}"`),
      line.replace('"message":{', `"message":["${SECRET}"],"was":{`),
    ]) {
      expect(odd).toContain(SECRET);
      const read = readEnvelope(odd);
      if (isLineFault(read)) throw new Error(read.fault);
      const left = redactedLine(odd, read.event);
      expect(left).not.toContain(SECRET);
      expect(isLineFault(readEnvelope(left))).toBe(false);
    }
  });
});

describe("what is left of a message", () => {
  it("is a message of the protocol", () => {
    const events = fc.constantFrom(...HARMLESS);
    fc.assert(
      fc.property(events, fc.nat(), unknownName, junk, (event, which, name, value) => {
        expect(faults(seen(event))).toEqual([]);
        expect(faults(seen(withMore(event, which, name, value)))).toEqual([]);
      }),
      { numRuns: 500 },
    );
    for (const [event, method] of [
      [asks("fs/write_text_file", { sessionId: "s", path: "/a", content: SECRET })],
      [
        asks("elicitation/create", {
          ...{ sessionId: "s", mode: "form", message: SECRET },
          requestedSchema: { type: "object", properties: { a: { type: "string", title: SECRET } } },
        }),
      ],
      [
        asks("elicitation/create", {
          sessionId: "s",
          mode: "url",
          message: SECRET,
          elicitationId: "e",
          url: "u:v",
        }),
      ],
      [answers("in", { stopReason: "end_turn", _meta: { x: SECRET } }), "session/prompt"],
      [answers("in", { sessionId: "s", modes: null, vendor: SECRET }), "session/new"],
      [frame("in", { id: 7, error: { code: 1, message: "m", data: SECRET } })],
    ] as [LogEvent, string?][]) {
      expect(faults(seen(event), method)).toEqual([]);
      expect(JSON.stringify(seen(event))).not.toContain(SECRET);
    }
  });
});

// ---- the projection -----------------------------------------------------------------------------------

const BY_LINK = { tenant: "t", subject: "share:x", workspaces: ["w"], scopes: [], expires: 0 } as const;

describe("the projection", () => {
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

  it("has the conversation and that tools were used, and no more of them", () => {
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

  it("is all there for those who may see all", () => {
    expect(JSON.parse(whole)).toEqual(JSON.parse(JSON.stringify(project(state))));
  });

  it("lacks nothing that has nothing to hide", () => {
    const view = {
      ...project(initialState(SESSION)),
      clients: [],
      workspaceState: { modifiedFiles: ["/a"] },
    };
    expect(sessionFor({ ...BY_LINK, redacted: true }, view)).toBe(JSON.stringify(view));
    expect(Object.keys(JSON.parse(text) as Json)).toEqual(Object.keys(project(state)));
  });
});
