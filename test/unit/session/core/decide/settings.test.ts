import { describe, expect, test } from "vitest";
import { giveUpRestoring } from "../../../../../src/session/core/decide/settings.ts";
import { isFrame, type LogEvent } from "../../../../../src/session/core/events/event.ts";
import { currentSetup } from "../../../../../src/session/core/read/current-setup.ts";
import { forClient } from "../../../../../src/session/core/read/for-client.ts";
import { apply } from "../../../../../src/session/core/state/fold.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";
import { STATE_BUDGET } from "../../../../../src/session/core/state/state-budget.ts";
import { brief, type Json, lastMessage, SessionScript, seqOf, startProcess } from "../session-script.ts";

const MODES = [
  { id: "default", name: "Default" },
  { id: "plan", name: "Plan" },
];
const modes = (currentModeId: string, availableModes = MODES) => ({ currentModeId, availableModes });
const models = (currentModelId: string) => ({
  currentModelId,
  availableModels: ["small", "large"].map((modelId) => ({ modelId, name: modelId })),
});
const option = (id: string, currentValue: string | boolean, category?: string) => ({
  id,
  name: id,
  currentValue,
  ...(category && { category }),
  ...(typeof currentValue === "boolean"
    ? { type: "boolean" }
    : {
        type: "select",
        options: ["default", "plan", "low", "high", "a", "b"].map((value) => ({ value, name: value })),
      }),
});

const RESUMES = { sessionCapabilities: { resume: {} } };

/** A session whose agent has opened it with this answer. */
function opened(setup: Json): SessionScript {
  const session = new SessionScript();
  session.open();
  startProcess(session, "run-1", RESUMES);
  session.answer(seqOf(session.log, "session/new", "gateway"), { sessionId: "agent-session", ...setup });
  return session;
}

/** A client sets something, and the agent agrees. */
function set(session: SessionScript, method: string, params: Json, result: Json = {}): LogEvent[] {
  const [asked] = session.request(method, params);
  return session.answer(asked?.seq ?? 0, result);
}

/** The process ends, a prompt asks for another, and that one has opened the agent session with this answer. */
function restarted(session: SessionScript, setup: Json): LogEvent[] {
  session.exit();
  session.prompt("go");
  startProcess(session, `run-${session.log.length}`, RESUMES);
  return session.answer(seqOf(session.log, "session/resume", "gateway"), setup);
}

/** Agrees to the setting that the process was asked for last. */
function agree(session: SessionScript, events: readonly LogEvent[], result: Json = {}): LogEvent[] {
  return session.answer(Number(lastMessage(events).id), result);
}

function refuse(session: SessionScript, events: readonly LogEvent[]): LogEvent[] {
  return session.agent({ id: lastMessage(events).id, error: { code: -32602, message: "no such mode" } });
}

/** What a client sees of events. */
function seenBy(session: SessionScript, events: readonly LogEvent[], connection = "c2"): Json[] {
  const viewer = {
    connection,
    replayUntil: 0,
    answers: true,
    subscriptions: { agent: false, turnEnds: false },
  };
  return events
    .flatMap((event) => forClient(event, session.state.sessionId, viewer))
    .map((raw) => (JSON.parse(raw) as { params?: { update?: Json } }).params?.update ?? {});
}

/** The settings in the answer to a client that attaches now. */
function setupOf({ state, log }: SessionScript): Json {
  return currentSetup(state.report, (seq) => {
    const event = log[seq - 1];
    return event && isFrame(event) ? event : undefined;
  });
}

const prompted = (events: readonly LogEvent[]) => brief(events).includes("turn.started");

describe("a process that was started again", () => {
  test("is asked for the mode of the process before, and prompts wait for its answer", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    const events = restarted(session, { modes: modes("default") });
    expect(lastMessage(events)).toMatchObject({
      method: "session/set_mode",
      params: { sessionId: "agent-session", modeId: "plan" },
    });
    expect(prompted(events)).toBe(false);
    const after = agree(session, events);
    expect(seenBy(session, after)).toContainEqual({
      sessionUpdate: "current_mode_update",
      currentModeId: "plan",
    });
    expect(brief(after).slice(-3)).toEqual(["agent.settings.restored", "queue.dequeued", "turn.started"]);
    expect(session.state.report.modes?.current).toBe("plan");
    expect(session.state.wanted).toBeUndefined();
  });

  test("is asked for nothing if it has the settings itself", () => {
    const session = opened({
      modes: modes("default"),
      models: models("small"),
      configOptions: [option("e", "a")],
    });
    set(session, "session/set_mode", { modeId: "plan" });
    const setup = { modes: modes("plan"), models: models("small"), configOptions: [option("e", "a")] };
    const events = restarted(session, setup);
    expect(brief(events)).not.toContain("agent.settings.restored");
    expect(prompted(events)).toBe(true);
    expect(session.state.wanted).toBeUndefined();
  });

  test("is asked for the model, the mode and the options, one after the other", () => {
    const first = [option("effort", "low"), option("web", false)];
    const session = opened({ modes: modes("default"), models: models("small"), configOptions: first });
    const chosen = [option("effort", "high"), option("web", true)];
    set(session, "session/set_model", { modelId: "large" });
    set(session, "session/set_mode", { modeId: "plan" });
    set(
      session,
      "session/set_config_option",
      { configId: "effort", value: "high" },
      { configOptions: chosen },
    );
    let events = restarted(session, {
      modes: modes("default"),
      models: models("small"),
      configOptions: first,
    });
    expect(lastMessage(events)).toMatchObject({ method: "session/set_model", params: { modelId: "large" } });
    events = agree(session, events);
    expect(lastMessage(events)).toMatchObject({ method: "session/set_mode", params: { modeId: "plan" } });
    events = agree(session, events);
    expect(lastMessage(events).params).toMatchObject({ configId: "effort", value: "high" });
    events = agree(session, events, { configOptions: [option("effort", "high"), option("web", false)] });
    expect(lastMessage(events).params).toMatchObject({ configId: "web", type: "boolean", value: true });
    expect(prompted(agree(session, events, { configOptions: chosen }))).toBe(true);
  });

  test("that refuses a mode is in the mode it says, and every client is told before the prompt runs", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    const after = refuse(session, restarted(session, { modes: modes("default") }));
    expect(seenBy(session, after, "c1").slice(0, 2)).toMatchObject([
      { sessionUpdate: "current_mode_update", currentModeId: "default" },
      {
        _meta: {
          "acp-edge/event": "session.settings_lost",
          "acp-edge/message": expect.stringContaining("mode plan (now default)"),
        },
      },
    ]);
    expect(brief(after).slice(-3)).toEqual(["agent.settings.restored", "queue.dequeued", "turn.started"]);
  });

  test("is not asked for a mode that it has no more", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    const events = restarted(session, { modes: modes("default", MODES.slice(0, 1)) });
    expect(brief(events)).not.toContain("gateway out session/set_mode");
    expect(seenBy(session, events)[0]).toMatchObject({ currentModeId: "default" });
    expect(prompted(events)).toBe(true);
  });

  test("that never answers holds up prompts only until the deadline", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    const asked = restarted(session, { modes: modes("default") });
    const given = session.step(giveUpRestoring);
    expect(seenBy(session, given)[0]).toMatchObject({ currentModeId: "default" });
    expect(prompted(given)).toBe(true);
    expect(session.step(giveUpRestoring)).toEqual([]);
    // Its late answer changes the mode after all.
    expect(seenBy(session, agree(session, asked))).toMatchObject([{ currentModeId: "plan" }]);
  });

  test("whose opening says nothing is asked for what was chosen, and for nothing else", () => {
    const session = opened({ modes: modes("default"), models: models("small") });
    set(session, "session/set_mode", { modeId: "plan" });
    const events = restarted(session, {});
    expect(lastMessage(events)).toMatchObject({ method: "session/set_mode", params: { modeId: "plan" } });
    const after = refuse(session, events);
    // Nobody knows the mode now: clients learn that it may not be the one they show.
    expect(JSON.stringify(seenBy(session, after))).not.toContain("current_mode_update");
    expect(JSON.stringify(seenBy(session, after))).toContain("did not take over: mode plan");
  });

  test("has no mode and no model that it refused, until one is set", () => {
    const session = opened({ modes: modes("default"), models: models("small") });
    set(session, "session/set_mode", { modeId: "plan" });
    set(session, "session/set_model", { modelId: "large" });
    refuse(session, refuse(session, restarted(session, {})));
    expect(setupOf(session)).toEqual({});
    // The next process is not asked for them either.
    session.answer(session.state.turn?.prompt ?? 0, { stopReason: "end_turn" });
    expect(prompted(restarted(session, {}))).toBe(true);
    set(session, "session/set_mode", { modeId: "default" });
    expect(setupOf(session)).toEqual({ modes: modes("default") });
  });

  test("has no option that it refused, and keeps the others", () => {
    const session = opened({ configOptions: [option("e", "low"), option("f", "a")] });
    set(
      session,
      "session/set_config_option",
      { configId: "e", value: "high" },
      { configOptions: [option("e", "high"), option("f", "a")] },
    );
    const after = refuse(session, restarted(session, {}));
    const left = [option("f", "a")];
    expect(seenBy(session, after)[0]).toEqual({
      sessionUpdate: "config_option_update",
      configOptions: left,
    });
    expect(setupOf(session)).toEqual({ configOptions: left });
    expect(session.state.report.configOptions).toEqual({ items: left, total: 1, truncated: false });
  });

  test("does not have an option of a long list that it refused, in the log's list either", () => {
    const long = (value: string) => [
      option("e", value),
      { ...option("f", "a"), description: "x".repeat(STATE_BUDGET.configOptionsChars) },
    ];
    const session = opened({ configOptions: long("low") });
    set(
      session,
      "session/set_config_option",
      { configId: "e", value: "high" },
      { configOptions: long("high") },
    );
    expect(setupOf(session)).toEqual({ configOptions: long("high") });
    refuse(session, restarted(session, {}));
    expect(setupOf(session)).toEqual({});
  });

  test("has no settings that it was not even asked for before the deadline", () => {
    const session = opened({ modes: modes("default"), models: models("small") });
    set(session, "session/set_mode", { modeId: "plan" });
    set(session, "session/set_model", { modelId: "large" });
    const asked = restarted(session, {});
    const given = session.step(giveUpRestoring);
    expect(JSON.stringify(seenBy(session, given))).toContain("did not take over: model large, mode plan");
    expect(setupOf(session)).toEqual({});
    // Its late answer says the model after all.
    agree(session, asked);
    expect(setupOf(session)).toEqual({ models: models("large") });
  });

  test("has a mode that it refused in one form and accepted in the other", () => {
    const both = (mode: string) => ({ modes: modes(mode), configOptions: [option("m", mode, "mode")] });
    const session = opened(both("default"));
    set(session, "session/set_mode", { modeId: "plan" });
    const inOtherForm = refuse(session, restarted(session, {}));
    expect(lastMessage(inOtherForm)).toMatchObject({ method: "session/set_config_option" });
    const after = agree(session, inOtherForm, { configOptions: both("plan").configOptions });
    expect(JSON.stringify(seenBy(session, after))).not.toContain("did not take over");
    expect(setupOf(session)).toEqual(both("plan"));
  });

  test("[I4] has lost settings in a state that is a fold of the log", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    refuse(session, restarted(session, {}));
    const folded = initialState(session.state.sessionId);
    for (const event of session.log) apply(folded, event);
    expect(folded).toEqual(session.state);
  });

  test("is asked for the settings again if the process before died while it was asked", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    restarted(session, { modes: modes("default") });
    const events = restarted(session, { modes: modes("default") });
    expect(lastMessage(events)).toMatchObject({ method: "session/set_mode", params: { modeId: "plan" } });
  });

  test("holds back whatever clients send while it is asked", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    const asked = restarted(session, { modes: modes("default") });
    const sent = session.request("session/set_mode", { modeId: "default" }, "c2");
    expect(brief(sent)).toEqual(["client out session/set_mode held", "queue.enqueued"]);
    expect(brief(session.prompt("more", undefined, "c2"))).toContain("client out session/prompt held");
    expect(brief(agree(session, asked)).filter((kind) => kind === "queue.dequeued")).toHaveLength(2);
  });

  test("keeps the mode that the agent itself had changed to", () => {
    const session = opened({ modes: modes("plan") });
    session.update({ sessionUpdate: "current_mode_update", currentModeId: "default" });
    expect(lastMessage(restarted(session, { modes: modes("plan") }))).toMatchObject({
      params: { modeId: "default" },
    });
  });

  test("reports its own mode before it has opened the session, which is no choice", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    session.exit();
    session.prompt("go");
    startProcess(session, "run-2", RESUMES);
    session.update({ sessionUpdate: "current_mode_update", currentModeId: "default" });
    const events = session.answer(seqOf(session.log, "session/resume", "gateway"), {});
    expect(lastMessage(events)).toMatchObject({ method: "session/set_mode", params: { modeId: "plan" } });
  });

  test("gets a setting that a client made meanwhile after the settings of the process before", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    session.exit();
    session.request("session/set_mode", { modeId: "default" });
    startProcess(session, "run-2", RESUMES);
    const asked = session.answer(seqOf(session.log, "session/resume", "gateway"), {
      modes: modes("default"),
    });
    expect(lastMessage(asked)).toMatchObject({ params: { modeId: "plan" } });
    expect(brief(agree(session, asked)).at(-1)).toBe("queue.dequeued");
    session.answer(seqOf(session.log, "session/set_mode", "client"), {});
    expect(session.state.report.modes?.current).toBe("default");
  });

  test("[I4] waits in a state that is a fold of the log", () => {
    const session = opened({ modes: modes("default") });
    set(session, "session/set_mode", { modeId: "plan" });
    restarted(session, { modes: modes("default") });
    const folded = initialState(session.state.sessionId);
    for (const event of session.log) apply(folded, event);
    expect(folded).toEqual(session.state);
    expect(folded.wanted?.asked).toEqual(["mode"]);
  });

  test("has one mode, in whichever form it was set", () => {
    const both = (mode: string) => ({ modes: modes(mode), configOptions: [option("m", mode, "mode")] });
    const session = opened(both("default"));
    // The agent keeps the mode over restarts, and sent no update of its option.
    set(session, "session/set_mode", { modeId: "plan" });
    expect(session.state.report.configOptions?.items[0]?.currentValue).toBe("plan");
    expect(prompted(restarted(session, both("plan")))).toBe(true);
    session.answer(session.state.turn?.prompt ?? 0, { stopReason: "end_turn" });
    set(
      session,
      "session/set_config_option",
      { configId: "m", value: "default" },
      { configOptions: [option("m", "default", "mode")] },
    );
    expect(session.state.report.modes?.current).toBe("default");
    expect(prompted(restarted(session, both("default")))).toBe(true);
  });
});

describe("a setting of one client", () => {
  test("is shown to the others", () => {
    const session = opened({
      modes: modes("default"),
      models: models("small"),
      configOptions: [option("e", "a")],
    });
    const mode = set(session, "session/set_mode", { modeId: "plan" });
    expect(seenBy(session, mode)).toEqual([{ sessionUpdate: "current_mode_update", currentModeId: "plan" }]);
    // The client that asked gets its answer and nothing else.
    expect(seenBy(session, mode, "c1")).toHaveLength(1);
    const configOptions = [option("e", "b")];
    const options = set(
      session,
      "session/set_config_option",
      { configId: "e", value: "b" },
      { configOptions },
    );
    expect(seenBy(session, options)).toEqual([{ sessionUpdate: "config_option_update", configOptions }]);
    expect(seenBy(session, options, "c1")).toHaveLength(1);
    const model = set(session, "session/set_model", { modelId: "large" });
    expect(seenBy(session, model)).toMatchObject([
      { _meta: { "acp-edge/message": "The model is now large" } },
    ]);
  });

  test("is not told twice if the agent has told it", () => {
    const session = opened({ modes: modes("default"), configOptions: [option("e", "a")] });
    const [asked] = session.request("session/set_mode", { modeId: "plan" });
    session.update({ sessionUpdate: "current_mode_update", currentModeId: "plan" });
    expect(brief(session.answer(asked?.seq ?? 0, {}))).toEqual(["agent in response"]);
    const configOptions = [option("e", "b")];
    const [other] = session.request("session/set_config_option", { configId: "e", value: "b" });
    session.update({ sessionUpdate: "config_option_update", configOptions });
    expect(brief(session.answer(other?.seq ?? 0, { configOptions }))).toEqual(["agent in response"]);
  });

  test("that the agent refuses is not shown", () => {
    const session = opened({ modes: modes("default") });
    const [asked] = session.request("session/set_mode", { modeId: "plan" });
    const events = session.agent({ id: asked?.seq, error: { code: -32602, message: "no" } });
    expect(events.filter(isFrame)).toHaveLength(1);
  });
});
