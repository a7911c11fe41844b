import { describe, expect, test } from "vitest";
import { CLIENT_ABILITIES } from "../../../../../src/protocol/client-abilities.ts";
import { setupInClientForm } from "../../../../../src/session/core/read/client-form.ts";
import { type Json, openSession } from "../session-script.ts";
import { OPTION, seen, TOGGLE, updates } from "./client-view.ts";

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
