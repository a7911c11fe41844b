import fc from "fast-check";
import { expect, test } from "vitest";
import { CLIENT_ABILITIES, type ClientAbility } from "../../../../../src/protocol/client-abilities.ts";
import { recordOf } from "../../../../../src/protocol/json-value.ts";
import { mergeChunks } from "../../../../../src/session/core/read/replay.ts";
import { propertyRuns } from "../../../../fixtures/property-runs.ts";
import { faults } from "../../../../fixtures/schema.ts";
import { type Json, openSession, type SessionScript } from "../session-script.ts";
import { OPTION, seen, TERMINAL, TEXT, TOGGLE, texts, updates, updatesIn, viewer } from "./client-view.ts";

const id = fc.constantFrom("a", "b", "c");
const data = fc.constantFrom("", "one\n", "two ", "```\n");
const item = fc.oneof(id.map(TERMINAL), data.map(TEXT));
const meta = fc.oneof(
  fc.record({ terminal_info: fc.record({ terminal_id: id, cwd: fc.constant("/w") }) }),
  fc.record({ terminal_output: fc.record({ terminal_id: id, data }) }),
  fc.record({
    terminal_exit: fc.record({ terminal_id: id, exit_code: fc.constant(0), signal: fc.constant(null) }),
  }),
);
const toolCall = fc.record(
  {
    toolCallId: fc.constantFrom("t", "u"),
    status: fc.constantFrom("pending", "in_progress", "completed", "failed"),
    content: fc.array(item, { maxLength: 3 }),
    _meta: meta,
  },
  { requiredKeys: ["toolCallId"] },
);
const planEntries = fc.array(
  fc.record({ content: data, priority: fc.constant("low"), status: fc.constant("pending") }),
  { maxLength: 3 },
);
const update: fc.Arbitrary<Json> = fc.oneof(
  toolCall.map((call) => ({ sessionUpdate: "tool_call", title: "T", ...call })),
  toolCall.map((call) => ({ sessionUpdate: "tool_call_update", ...call })),
  planEntries.map((entries) => ({ sessionUpdate: "plan", entries })),
  fc.record({
    sessionUpdate: fc.constant("plan_update"),
    plan: fc.record({ type: fc.constant("items"), planId: id, entries: planEntries }),
  }),
  id.map((planId) => ({ sessionUpdate: "plan_removed", planId })),
  fc.constant({ sessionUpdate: "notice", severity: "info", title: "t" }),
  fc.constant({ sessionUpdate: "compaction_update", compactionId: "c", status: "completed" }),
  fc.constant({
    sessionUpdate: "compaction_summary_chunk",
    compactionId: "c",
    content: { type: "text", text: "s" },
  }),
  fc
    .subarray([OPTION, TOGGLE])
    .map((configOptions) => ({ sessionUpdate: "config_option_update", configOptions })),
  data.map((text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } })),
);
const report = fc.oneof(
  fc.record({ terminalId: id, data }).map((body) => JSON.stringify(["terminal_output", body])),
  id.map((terminalId) => JSON.stringify(["terminal_exit", { terminalId, exitCode: 0, signal: null }])),
);
const step = fc.oneof(
  { weight: 2, arbitrary: report.map((line) => (session: SessionScript) => session.item(line)) },
  { weight: 8, arbitrary: update.map((one) => (session: SessionScript) => session.update(one)) },
  {
    weight: 1,
    arbitrary: toolCall.map(
      (call) => (session: SessionScript) => session.askPermission("p", { toolCall: call }),
    ),
  },
);
const abilities = fc.subarray([...CLIENT_ABILITIES]);

/** The abilities that a client needs to get this message. */
function needed(message: Json): ClientAbility[] {
  const { update: given, toolCall: asked } = recordOf(message.params);
  const { sessionUpdate, configOptions, content } = recordOf(given ?? asked);
  const list = (value: unknown) => (Array.isArray(value) ? value.map(recordOf) : []);
  return [
    ...(sessionUpdate === "notice" ? (["notices"] as const) : []),
    ...(String(sessionUpdate).startsWith("compaction") ? (["compaction"] as const) : []),
    ...(String(sessionUpdate).startsWith("plan_") ? (["plan-operations"] as const) : []),
    ...(list(configOptions).some(({ type }) => type === "boolean") ? (["boolean-options"] as const) : []),
    ...(list(content).some(({ type }) => type === "terminal") ? (["terminal-output"] as const) : []),
  ];
}

test("a client gets no kind of message that it did not offer, and only valid ones, whatever the agent sends", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), abilities, fc.boolean(), (steps, offered, isReplay) => {
      const session = openSession();
      session.prompt("go");
      const from = session.log.length;
      for (const one of steps) one(session);
      const events = session.log.slice(from);
      const messages = seen(session, events, offered, isReplay ? { replayUntil: session.state.lastSeq } : {});
      for (const message of messages) {
        expect(offered).toEqual(expect.arrayContaining(needed(message)));
        // The schema that is checked here is the stable one.
        if (needed(message).includes("plan-operations")) continue;
        expect(faults(message), JSON.stringify(message)).toEqual([]);
      }
    }),
    propertyRuns(800),
  );
});

test("a client with the ability is told of each terminal before a tool call names it", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const session = openSession();
      session.prompt("go");
      for (const one of steps) one(session);
      const announced = new Set<unknown>();
      for (const { params } of seen(session, session.log, CLIENT_ABILITIES)) {
        const given = recordOf(recordOf(params).update ?? recordOf(params).toolCall);
        const { terminal_info } = recordOf(given._meta);
        announced.add(recordOf(terminal_info).terminal_id);
        for (const { type, terminalId } of Array.isArray(given.content) ? given.content.map(recordOf) : [])
          if (type === "terminal") expect(announced).toContain(terminalId);
      }
    }),
    propertyRuns(400),
  );
});

test("a client without the ability has the whole output when the tool call ends, whatever comes before", () => {
  const about = fc.record(
    {
      content: fc.array(item, { maxLength: 3 }),
      _meta: meta,
      status: fc.constant("in_progress"),
    },
    { requiredKeys: [] },
  );
  const calls = fc.array(fc.tuple(fc.constantFrom("tool_call", "tool_call_update"), about), { maxLength: 8 });
  fc.assert(
    fc.property(calls, (given) => {
      const session = openSession();
      const title = "T";
      const said: string[] = [];
      const tell = (sessionUpdate: string, more: Json, n: number) => {
        const terminal_output = { terminal_id: "a", data: `<${n}>` };
        said.push(terminal_output.data);
        session.update({
          sessionUpdate,
          toolCallId: "t",
          title,
          ...more,
          _meta: { ...recordOf(more._meta), terminal_output },
        });
      };
      for (const [n, [kind, more]] of given.entries()) tell(kind, more, n);
      tell("tool_call_update", { status: "completed" }, given.length);
      let content: unknown = [];
      for (const one of updates(session, session.log))
        if (one.toolCallId === "t") content = one.content ?? content;
      expect(texts(content).join()).toContain(said.join(""));
    }),
    propertyRuns(400),
  );
});

test("replaying, with chunks joined or not, shows what the live stream has shown", () => {
  fc.assert(
    fc.property(fc.array(update, { maxLength: 12 }), abilities, (given, offered) => {
      const session = openSession();
      const events = given.flatMap((one) => session.update(one));
      const isKept = ({ sessionUpdate }: Json) => sessionUpdate !== "notice";
      const live = updates(session, events, offered).filter(isKept);
      const past = viewer(offered, { replayUntil: session.state.lastSeq });
      expect(updates(session, events, offered, past)).toEqual(live);
      const merged = mergeChunks(events, session.state.sessionId, past, 1000);
      const isChunk = ({ sessionUpdate }: Json) => sessionUpdate === "agent_message_chunk";
      const others = updatesIn(merged.texts.map((text) => JSON.parse(text) as Json)).filter(
        (one) => !isChunk(one),
      );
      expect(others).toEqual(live.filter((one) => !isChunk(one)));
    }),
    propertyRuns(400),
  );
});
