import fc from "fast-check";
import { isFault, readFrame } from "../../../../../src/protocol/frame.ts";
import { DEFAULT_LIMITS } from "../../../../../src/protocol/limits.ts";
import { Batch } from "../../../../../src/session/core/decide/batch.ts";
import type { Context, FrameEvent, LogEvent, Route } from "../../../../../src/session/core/events/event.ts";
import { readFact } from "../../../../../src/session/core/events/fact-reader.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";

// ---- sessions by hand ---------------------------------------------------------------------------------

/** A session whose first turn is running. */
export function session() {
  const state = initialState("s");
  const batch = new Batch(state, 1000, DEFAULT_LIMITS, () => undefined);
  const identity = { tenant: "t", owner: "o", workspace: "w", agent: "codex", cwd: "/w", request: 1 };
  batch.fact("gateway", "session.requested", identity);
  const context = { acpSessionId: "agent-session", agentSessionId: null, turnId: null };
  batch.fact("gateway", "session.created", { acpSessionId: "agent-session" }, context);
  const turn = { ...context, turnId: "turn_1" };
  const asked = batch.frame("client", "out", prompt("Do this"), { connection: "c" }, turn);
  batch.fact("gateway", "turn.started", { turnId: "turn_1", prompt: asked }, turn);
  const agent = (raw: string, route: Route = {}) => batch.frame("agent", "in", raw, route);
  return { state, batch, agent };
}

export function request(method: string, params: unknown): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
}

export function prompt(text: string): string {
  return request("session/prompt", { sessionId: "s", prompt: [{ type: "text", text }] });
}

export function sessionUpdate(content: unknown, sessionId = "agent-session"): string {
  return JSON.stringify({
    jsonrpc: "2.0",
    method: "session/update",
    params: { sessionId, update: content },
  });
}

// ---- random logs --------------------------------------------------------------------------------------

/** Values for any member of any message. Drawing them is cheap, unlike `fc.jsonValue()`. */
const garbage: fc.Arbitrary<unknown> = fc.constantFrom<unknown[]>(
  ...[null, true, 0, -0, -1, 1.5, 2 ** 60, 1e300, "", "x", "__proto__", "\ud800", [], {}],
  ...[
    [null],
    [[]],
    [{}],
    ["x", 1],
    { text: 1 },
    { a: { b: null } },
    { sessionUpdate: "plan" },
    { toolCallId: [] },
  ],
);
const NO_CONTEXT: Context = { acpSessionId: null, agentSessionId: null, turnId: null };

export function frameEvent(
  seq: number,
  raw: string,
  {
    source = "agent",
    route = {} as Route,
    context = NO_CONTEXT,
    requestId = undefined as string | undefined,
  } = {},
): FrameEvent {
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error(`not a frame: ${raw}`);
  return {
    seq,
    at: seq * 10,
    kind: "acp.frame",
    source,
    direction: source === "client" || source === "gateway" ? "out" : "in",
    frame,
    route,
    context,
    ...(requestId === undefined ? {} : { requestId }),
  };
}

/** The payload may hold anything, because it is read like that of a foreign line. */
export function factEvent(seq: number, kind: string, payload: object, context = NO_CONTEXT): LogEvent {
  return readFact({ seq, at: seq * 10, source: "gateway", context }, kind, { ...payload });
}

/** Mostly a proper value, sometimes garbage. */
function mostly<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 5, arbitrary }, { weight: 1, arbitrary: garbage });
}

/** Known members that may be missing, null or garbage, beside unknown ones. */
function members(known: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Record<string, unknown>> {
  const model = Object.fromEntries(
    Object.entries(known).map(([name, arbitrary]) => [
      name,
      fc.oneof(
        { weight: 8, arbitrary },
        { weight: 1, arbitrary: fc.constant(null) },
        { weight: 1, arbitrary: garbage },
      ),
    ]),
  );
  return fc
    .tuple(
      fc.record(model, { requiredKeys: [] }),
      fc.dictionary(fc.constantFrom("_x", "__proto__", "y"), garbage),
    )
    .map(([a, b]) => ({ ...b, ...a }));
}

export function update(text: fc.Arbitrary<string>, id: fc.Arbitrary<string>): fc.Arbitrary<unknown> {
  const block = mostly(members({ type: fc.constantFrom("text", "image"), text }));
  const kind = (sessionUpdate: string, known: Record<string, fc.Arbitrary<unknown>>) =>
    members(known).map((rest) => ({ ...rest, sessionUpdate }));
  const call = {
    toolCallId: id,
    title: text,
    name: text,
    kind: fc.constantFrom("read", "edit", "new_kind"),
    status: fc.constantFrom("pending", "in_progress", "completed", "failed", "cancelled", "toString"),
    content: fc.array(block, { maxLength: 3 }),
    locations: fc.array(members({ path: text })),
    rawInput: text,
    rawOutput: fc.array(text, { maxLength: 2 }),
  };
  return fc.oneof(
    { weight: 5, arbitrary: kind("agent_message_chunk", { content: block, messageId: id }) },
    { weight: 5, arbitrary: kind("tool_call", call) },
    { weight: 8, arbitrary: kind("tool_call_update", call) },
    kind("plan", { entries: fc.array(members({ content: text }), { maxLength: 3 }) }),
    kind("plan_update", { plan: members({ planId: id, content: text }) }),
    kind("plan_removed", { planId: id }),
    kind("available_commands_update", {
      availableCommands: fc.array(members({ name: text, description: text }), { maxLength: 9 }),
    }),
    kind("current_mode_update", { currentModeId: id }),
    kind("config_option_update", { configOptions: fc.array(members({ id, name: text }), { maxLength: 4 }) }),
    kind("session_info_update", { title: text, updatedAt: text, _meta: fc.dictionary(fc.string(), text) }),
    kind("usage_update", {
      used: fc.double(),
      size: fc.nat(),
      cost: members({ amount: fc.double(), currency: text }),
    }),
    kind("compaction_update", { compactionId: id, status: text, error: text }),
    kind("compaction_summary_chunk", { compactionId: id, content: block }),
    kind("notice", { title: text }),
    garbage,
  );
}

const fewIds = fc.constantFrom("a", "b", "c", "__proto__", "1");
const fewSeqs = fc.integer({ min: 1, max: 30 });
const turnIds = fc.constantFrom("turn_1", "turn_2", "turn_3");

const contexts: fc.Arbitrary<Context> = fc.record({
  acpSessionId: fc.constantFrom(null, "agent-session", "other"),
  agentSessionId: fc.constantFrom(null, "inner"),
  turnId: fc.option(turnIds),
});

const routes: fc.Arbitrary<Route> = fc.record(
  {
    connection: fewIds,
    to: fewIds,
    id: fc.constantFrom("1", '"x"', "null"),
    re: fewSeqs,
    requestId: fc.constant("1"),
    repeats: fewSeqs,
    stop: fc.constantFrom("held", "gateway", "host", "sent", "stray", "replay", "duplicate"),
  },
  { requiredKeys: [] },
);

const params = mostly(
  members({
    sessionId: fc.constantFrom("agent-session", "other"),
    update: update(fc.string(), fewIds),
    prompt: fc.array(mostly(members({ type: fc.constant("text"), text: fc.string() }))),
    toolCall: members({ toolCallId: fewIds, title: fc.string(), kind: fc.string() }),
    options: fc.array(members({ optionId: fewIds })),
    modeId: fewIds,
    modelId: fewIds,
    _meta: members({ "acp-edge/idempotencyKey": fewIds }),
  }),
);

const results = mostly(
  members({
    sessionId: fewIds,
    modes: members({ currentModeId: fewIds, availableModes: fc.array(members({ id: fewIds })) }),
    models: members({ currentModelId: fewIds, availableModels: fc.array(members({ modelId: fewIds })) }),
    configOptions: fc.array(members({ id: fewIds })),
    stopReason: fc.constantFrom("end_turn", "cancelled"),
    usage: members({ totalTokens: fc.nat() }),
    agentCapabilities: members({
      loadSession: fc.boolean(),
      sessionCapabilities: members({ resume: fc.constant({}) }),
    }),
    title: fc.string(),
    _meta: members({}),
  }),
);

const methods = fc.constantFrom(
  "initialize",
  "session/new",
  "session/load",
  "session/resume",
  "session/prompt",
  "session/cancel",
  "session/set_mode",
  "session/set_model",
  "session/set_config_option",
  "session/set_title",
  "session/request_permission",
  "fs/read_text_file",
  "_vendor/thing",
);

const messages: fc.Arbitrary<object> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ method: fc.constant("session/update"), params }) },
  {
    weight: 3,
    arbitrary: fc.record({ id: fc.nat(), method: methods, params }, { requiredKeys: ["method"] }),
  },
  { weight: 2, arbitrary: fc.record({ id: fewSeqs, result: results }) },
  { weight: 1, arbitrary: fc.record({ id: fewSeqs, error: garbage }) },
  {
    weight: 1,
    arbitrary: fc.dictionary(fc.constantFrom("id", "method", "params", "result"), garbage),
  },
);

const kinds = fc.constantFrom(
  "session.requested",
  "session.created",
  "session.rebound",
  "session.loaded",
  "session.closed",
  "session.agent_session_id.updated",
  "runtime.connected",
  "runtime.disconnected",
  "runtime.reconnect_attempt",
  "runtime.reconnected",
  "runtime.paused",
  "runtime.noise",
  "queue.enqueued",
  "queue.dequeued",
  "queue.owner.started",
  "queue.owner.lease_renewed",
  "queue.owner.idle_expired",
  "queue.owner.draining",
  "queue.owner.drained",
  "queue.owner.stopped",
  "turn.started",
  "turn.completed",
  "turn.cancelled",
  "turn.failed",
  "permission.requested",
  "permission.responded",
  "client.fs.read",
  "error",
  "toString",
  "future.kind",
);

const payloads = members({
  seq: fewSeqs,
  prompt: fewSeqs,
  request: fewSeqs,
  turnId: turnIds,
  run: fewIds,
  host: fewIds,
  root: fc.string(),
  pid: fc.nat(),
  command: fc.string(),
  code: fc.nat(),
  signal: fc.string(),
  reason: fc.string(),
  message: fc.string(),
  method: fc.string(),
  expected: fc.boolean(),
  stopReason: fc.string(),
  textPreview: fc.string(),
  detailCode: fc.constantFrom("agent_unavailable", "crash_loop", "x"),
});

const sources = fc.constantFrom("client", "agent", "agent", "host", "gateway", "acpx");

type Draft = (seq: number) => LogEvent;

const drafts: fc.Arbitrary<Draft> = fc.oneof(
  fc
    .record({
      message: messages,
      source: sources,
      route: routes,
      context: contexts,
      requestId: fc.option(fewIds),
    })
    .map(
      ({ message, requestId, ...rest }): Draft =>
        (seq) =>
          frameEvent(seq, JSON.stringify(message), { ...rest, requestId: requestId ?? undefined }),
    ),
  fc.record({ kind: kinds, payload: payloads, context: contexts }).map(
    ({ kind, payload, context }): Draft =>
      (seq) =>
        factEvent(seq, kind, JSON.parse(JSON.stringify(payload)) as object, context),
  ),
);

export const log: fc.Arbitrary<LogEvent[]> = fc
  .array(drafts, { maxLength: 40, size: "max" })
  .map((all) => all.map((draft, i) => draft(i + 1)));
