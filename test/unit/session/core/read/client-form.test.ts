import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CLIENT_ABILITIES, type ClientAbility } from "../../../../../src/protocol/client-abilities.ts";
import { recordOf } from "../../../../../src/protocol/json-value.ts";
import type { LogEvent } from "../../../../../src/session/core/events/event.ts";
import { setupInClientForm } from "../../../../../src/session/core/read/client-form.ts";
import { forClient, type Viewer } from "../../../../../src/session/core/read/for-client.ts";
import { mergeChunks } from "../../../../../src/session/core/read/replay.ts";
import { propertyRuns } from "../../../../fixtures/property-runs.ts";
import { faults } from "../../../../fixtures/schema.ts";
import { type Json, openSession, type SessionScript } from "../session-script.ts";

type Abilities = readonly ClientAbility[];

function viewer(abilities: Abilities, more: Partial<Viewer> = {}): Viewer {
  return { connection: "c2", replayUntil: 0, answers: true, subscriptions: { abilities }, ...more };
}

/** The messages that a client with these abilities gets. */
function seen(
  session: SessionScript,
  events: readonly LogEvent[],
  abilities: Abilities = [],
  more: Partial<Viewer> = {},
): Json[] {
  const { sessionId } = session.state;
  return events
    .flatMap((event) => forClient(event, sessionId, viewer(abilities, more)))
    .map((text) => JSON.parse(text) as Json);
}

const updatesIn = (messages: readonly Json[]) =>
  messages.flatMap(({ params }) => {
    const { update } = recordOf(params);
    return update === undefined ? [] : [recordOf(update)];
  });
const updates = (...given: Parameters<typeof seen>) => updatesIn(seen(...given));
const texts = (content: unknown) =>
  (content as Json[]).map((item) => recordOf(item.content).text ?? recordOf(item).type);

const TERMINAL = (terminalId: string) => ({ type: "terminal", terminalId });
const TEXT = (text: string) => ({ type: "content", content: { type: "text", text } });
const OPTION = { id: "model", name: "Model", type: "select", currentValue: "a", options: [] };
const TOGGLE = { id: "web", name: "Web", type: "boolean", currentValue: true };

describe("a client gets nothing that it did not offer to show", () => {
  test.each([
    ["notices", { sessionUpdate: "notice", severity: "info", title: "t" }],
    ["compaction", { sessionUpdate: "compaction_update", compactionId: "c", status: "in_progress" }],
    [
      "compaction",
      { sessionUpdate: "compaction_summary_chunk", compactionId: "c", content: { type: "text", text: "s" } },
    ],
  ] as const)("%s", (ability, update) => {
    const session = openSession();
    const events = session.update(update);
    expect(updates(session, events)).toEqual([]);
    expect(
      updates(
        session,
        events,
        CLIENT_ABILITIES.filter((other) => other !== ability),
      ),
    ).toEqual([]);
    expect(updates(session, events, [ability])).toEqual([update]);
  });

  test("boolean options, in updates and in answers", () => {
    const session = openSession();
    const configOptions = [TOGGLE, OPTION, { ...TOGGLE, id: "x" }];
    const events = session.update({ sessionUpdate: "config_option_update", configOptions });
    expect(updates(session, events)).toEqual([
      { sessionUpdate: "config_option_update", configOptions: [OPTION] },
    ]);
    expect(updates(session, events, ["boolean-options"])).toMatchObject([{ configOptions }]);

    const params = { configId: "model", value: "a" };
    const [asked] = session.request("session/set_config_option", params, "c2");
    const answered = session.answer(asked?.seq as number, { configOptions });
    expect(seen(session, answered)).toMatchObject([{ id: 1, result: { configOptions: [OPTION] } }]);
    expect(seen(session, answered, ["boolean-options"])).toMatchObject([{ result: { configOptions } }]);

    const loaded = session.request("session/load", { cwd: "/", mcpServers: [] }, "c2");
    expect(seen(session, loaded).at(-1)).toMatchObject({ result: { configOptions: [OPTION] } });
    const setup = JSON.stringify({ modes: 1, configOptions });
    expect(JSON.parse(setupInClientForm(setup, []))).toEqual({ modes: 1, configOptions: [OPTION] });
    expect(setupInClientForm(setup, ["boolean-options"])).toBe(setup);
  });
});

describe("a client without plan operations", () => {
  const entry = (content: string) => ({ content, priority: "high", status: "pending" });
  const items = (planId: string, ...contents: string[]) => ({
    sessionUpdate: "plan_update",
    plan: { type: "items", planId, entries: contents.map(entry) },
  });

  test("gets all plans as one whenever one of them changes", () => {
    const session = openSession();
    const steps = [
      session.update(items("a", "1", "2")),
      session.update(items("b", "3")),
      session.update({
        sessionUpdate: "plan_update",
        plan: { type: "markdown", planId: "c", content: "# Text" },
      }),
      session.update({ sessionUpdate: "plan_removed", planId: "a" }),
    ];
    const plans = steps.map((events) => updates(session, events));
    expect(plans.flat().every(({ sessionUpdate }) => sessionUpdate === "plan")).toBe(true);
    expect(
      plans.map((some) => some.map(({ entries }) => (entries as Json[]).map(({ content }) => content))),
    ).toEqual([[["1", "2"]], [["1", "2", "3"]], [["1", "2", "3", "# Text"]], [["3", "# Text"]]]);
    expect(steps.flatMap((events) => updates(session, events, ["plan-operations"]))).toMatchObject([
      { sessionUpdate: "plan_update" },
      { sessionUpdate: "plan_update" },
      { sessionUpdate: "plan_update" },
      { sessionUpdate: "plan_removed" },
    ]);
  });

  test("gets a plan that is too long for the state from the log, within bounds", () => {
    const session = openSession();
    session.update(items("a", ...Array.from({ length: 20 }, (_, i) => `${i} ${"x".repeat(300)}`)));
    const [plan] = updates(session, session.update(items("b", "last")));
    expect(((plan?.entries ?? []) as Json[]).map(({ content }) => String(content).slice(0, 4))).toEqual([
      ...Array.from({ length: 20 }, (_, i) => `${i} xx`.slice(0, 4)),
      "last",
    ]);
    const [long] = updates(session, session.update(items("c", "y".repeat(100_000))));
    expect(JSON.stringify(long).length).toBeLessThan(20_000);
  });
});

describe("the output of a command that the agent runs itself", () => {
  const call = {
    sessionUpdate: "tool_call",
    toolCallId: "t",
    title: "ls",
    status: "in_progress",
    content: [TERMINAL("x")],
    _meta: { terminal_info: { terminal_id: "x", cwd: "/w" } },
  };
  const output = (data: string) => ({
    sessionUpdate: "tool_call_update",
    toolCallId: "t",
    _meta: { terminal_output: { terminal_id: "x", data } },
  });
  const ended = {
    sessionUpdate: "tool_call_update",
    toolCallId: "t",
    status: "completed",
    _meta: {
      terminal_output: { terminal_id: "x", data: "three\n" },
      terminal_exit: { terminal_id: "x", exit_code: 1, signal: null },
    },
  };

  test("reaches a client with the ability verbatim", () => {
    const session = openSession();
    const given = [call, output("one\n"), output("two\n"), ended];
    const events = given.flatMap((update) => session.update(update));
    expect(updates(session, events, ["terminal-output"])).toEqual(given);
  });

  test("reaches any other client as text, before the tool call ends", () => {
    const session = openSession();
    const events = [call, output("one\n"), output("two\n"), ended].flatMap((one) => session.update(one));
    const [first, text, last, ...more] = updates(session, events);
    expect(more).toEqual([]);
    expect(first).toEqual({ ...call, content: [] });
    expect(text).toEqual({
      sessionUpdate: "tool_call_update",
      toolCallId: "t",
      content: [TEXT("```\none\ntwo\nthree\n[exit code 1]\n```")],
    });
    expect(last).toEqual(ended);
    expect(session.state.terminals).toEqual([]);
  });

  test("keeps the other content of the tool call, and does not take the text away again", () => {
    const session = openSession();
    const events = [
      { ...call, content: [TEXT("before"), TERMINAL("x")] },
      output("one"),
      { ...ended, content: [TEXT("after"), TERMINAL("x")] },
    ].flatMap((one) => session.update(one));
    const [first, text, last] = updates(session, events);
    expect(first?.content).toEqual([TEXT("before")]);
    expect(texts(text?.content)).toEqual(["after", "```\nonethree\n[exit code 1]\n```"]);
    expect(last).toEqual({ ...ended, content: null });
  });

  test("is cut to its end", () => {
    const session = openSession();
    const events = [call, output(`${"a".repeat(60_000)}`), ended].flatMap((one) => session.update(one));
    const text = String(texts(updates(session, events)[1]?.content)[0]);
    expect(text).toMatch(/^```\n… 4\d{4} characters are left out …\na+three\n\[exit code 1\]\n```$/);
    expect(text.length).toBeLessThan(17_000);
  });

  test("is told when the process ends before the tool call does", () => {
    const session = openSession();
    session.prompt("go");
    for (const update of [call, output("one")]) session.update(update);
    const [text] = updates(session, session.exit());
    expect(texts(text?.content)).toEqual(["```\none\n```"]);
    expect(session.state.terminals).toBeUndefined();
  });

  test("is in a permission request for no client without the ability", () => {
    const session = openSession();
    for (const update of [call, output("one")]) session.update(update);
    const events = session.askPermission("p", { toolCall: { toolCallId: "t", content: [TERMINAL("x")] } });
    expect(JSON.stringify(seen(session, events))).not.toContain("terminalId");
    expect(seen(session, events, ["terminal-output"])).toMatchObject([
      { params: { toolCall: { content: [TERMINAL("x")] } } },
    ]);
  });

  test("of a log from before is shown without the terminal", () => {
    const session = openSession();
    const [event] = session.update({ ...call, content: [TEXT("t"), TERMINAL("x")] });
    const old = { ...event, route: {} } as LogEvent;
    for (const abilities of [[], CLIENT_ABILITIES])
      expect(updates(session, [old], abilities)).toMatchObject([{ content: [TEXT("t")] }]);
  });
});

// ---- any sequence -------------------------------------------------------------------------------------

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
const step = fc.oneof(
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
