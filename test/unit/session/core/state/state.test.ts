import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../../../src/protocol/limits.ts";
import { Batch } from "../../../../../src/session/core/decide/batch.ts";
import type { FrameEvent, LogEvent } from "../../../../../src/session/core/events/event.ts";
import { project } from "../../../../../src/session/core/read/projection.ts";
import { apply } from "../../../../../src/session/core/state/fold.ts";
import { initialState, type SessionState } from "../../../../../src/session/core/state/state.ts";
import { STATE_BUDGET } from "../../../../../src/session/core/state/state-budget.ts";
import { propertyRuns } from "../../../../fixtures/property-runs.ts";
import { factEvent, frameEvent, log, request, session, sessionUpdate, update } from "./fixtures.ts";

describe("the state of a session", () => {
  test("[I4] can be folded from any log without throwing", () => {
    fc.assert(
      fc.property(log, (events) => {
        project(folded(events));
      }),
      propertyRuns(300),
    );
  });

  test("[I4] is the same, byte for byte, when the fold continues from a snapshot taken anywhere", () => {
    fc.assert(
      fc.property(log, fc.nat(), (events, n) => {
        const whole = folded(events);
        const cut = n % (events.length + 1);
        const snapshot = JSON.parse(JSON.stringify(folded(events.slice(0, cut)))) as SessionState;
        const continued = folded(events.slice(cut), snapshot);
        expect(JSON.stringify(continued)).toBe(JSON.stringify(whole));
        expect(JSON.stringify(project(continued))).toBe(JSON.stringify(project(whole)));
      }),
      propertyRuns(300),
    );
  });

  test("stays bounded, however long the session and its reports are", () => {
    const long = fc.nat(20_000).map((n) => "é".repeat(n));
    const updates = fc.sample(update(long, fc.uuid()), { numRuns: 1000, seed: 1 });
    const state = initialState("s");
    let largest = 0;
    for (let i = 1; i <= 10_000; i += 1) {
      if (i % 40 === 1) {
        apply(state, frameEvent(i, '{"id":1,"method":"session/prompt","params":{}}', { source: "client" }));
        apply(state, factEvent(i, "turn.started", { turnId: `turn_${i}`, prompt: i }));
      } else if (i % 40 === 0) {
        apply(state, factEvent(i, "turn.completed", { turnId: `turn_${i - 39}`, prompt: i - 39 }));
        state.awaitingAgent = {};
      } else {
        apply(state, updateEvent(i, updates[(i * 7) % updates.length]));
      }
      if (i % 500 === 0) largest = Math.max(largest, JSON.stringify(state).length);
    }
    expect(state.turns).toMatchObject({ total: 250 });
    expect(state.report.toolCalls.items.length).toBeLessThanOrEqual(STATE_BUDGET.toolCalls);
    expect(largest).toBeLessThan(DEFAULT_LIMITS.rowChars);
  });
});

describe("a report of the agent", () => {
  test("is not counted in a replay of its history, nor for sub-sessions", () => {
    const { state, agent } = session();
    const call = { sessionUpdate: "tool_call", toolCallId: "t", title: "T" };
    agent(sessionUpdate(call), { stop: "replay" });
    agent(sessionUpdate(call), { stop: "duplicate" });
    agent(sessionUpdate(call, "child"));
    expect(state.report.toolCalls.total).toBe(0);
    expect(state.turns.recent[0]).toMatchObject({ updates: 0, toolCalls: 0 });
    agent(sessionUpdate(call));
    expect(state.report.toolCalls.total).toBe(1);
    expect(state.turns.recent[0]).toMatchObject({ updates: 1, toolCalls: 1 });
  });

  test("belongs to the session although it comes before the session is open", () => {
    const state = initialState("s");
    const batch = new Batch(state, 1000, DEFAULT_LIMITS, () => undefined);
    batch.frame("agent", "in", sessionUpdate({ sessionUpdate: "current_mode_update", currentModeId: "m" }));
    expect(state.report.modes?.current).toBe("m");
  });

  test("includes a mode that was set and only acknowledged", () => {
    const { state, batch, agent } = session();
    const set = (modeId: string) =>
      batch.frame("client", "out", request("session/set_mode", { sessionId: "s", modeId }), {
        connection: "c",
      });
    const first = set("code");
    expect(state.report.modes).toBeNull();
    agent(JSON.stringify({ id: first, result: {} }), { re: first, to: "c", id: "1" });
    expect(state.report.modes?.current).toBe("code");
    const second = set("wrong");
    agent(JSON.stringify({ id: second, error: { code: 1 } }), { re: second, to: "c", id: "1" });
    expect(state.report.modes?.current).toBe("code");
  });

  test("includes the members of the answer that opened the session", () => {
    const state = initialState("s");
    const batch = new Batch(state, 1000, DEFAULT_LIMITS, () => undefined);
    const asked = batch.frame("gateway", "out", request("session/load", {}));
    const result = { modes: { currentModeId: "a", availableModes: [] }, configOptions: [{ id: "o" }] };
    batch.frame("agent", "in", JSON.stringify({ id: asked, result }), { re: asked, stop: "gateway" });
    expect(project(state)).toMatchObject({
      modes: { current: "a", available: { items: [] } },
      configOptions: { items: [{ id: "o" }], total: 1, truncated: false },
    });
  });
});

function folded(events: readonly LogEvent[], state = initialState("s")): SessionState {
  for (const event of events) apply(state, event);
  return state;
}

function updateEvent(seq: number, content: unknown): FrameEvent {
  return frameEvent(seq, sessionUpdate(content));
}
