import { describe, expect, test } from "vitest";
import { indexEntry } from "../../../../../src/session/core/read/index-entry.ts";
import { project } from "../../../../../src/session/core/read/projection.ts";
import { apply } from "../../../../../src/session/core/state/fold.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";
import { openSession, type SessionScript, seqOf, startProcess } from "../session-script.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

function costs(session: SessionScript, amount: unknown, currency: unknown = "USD"): void {
  session.update({ sessionUpdate: "usage_update", used: 10, size: 100, cost: { amount, currency } });
}

function restart(session: SessionScript): void {
  session.exit();
  session.prompt("go");
  startProcess(session, `run-${session.log.length}`);
  session.answer(seqOf(session.log, "session/new", "gateway"), { sessionId: "agent-session" });
  if (session.state.turn) session.answer(session.state.turn.prompt, { stopReason: "end_turn" });
}

function turn(session: SessionScript, usage: Record<string, number>): void {
  session.prompt("go");
  session.answer(session.state.turn?.prompt ?? 0, { stopReason: "end_turn", usage });
}

const total = ({ state }: SessionScript) => (project(state).usage as { total: unknown }).total;

describe("the cost of a session", () => {
  test("adds up over processes that begin at zero", () => {
    const session = openSession();
    costs(session, 0.5);
    costs(session, 0.75);
    restart(session);
    costs(session, 0.25);
    expect(total(session)).toEqual({ costs: { USD: 1 }, tokens: {} });
    costs(session, 0.5);
    expect(total(session)).toEqual({ costs: { USD: 1.25 }, tokens: {} });
  });

  test("is not counted twice where a process goes on from the total before", () => {
    const session = openSession();
    costs(session, 0.5);
    restart(session);
    costs(session, 0.5);
    costs(session, 0.75);
    expect(total(session)).toEqual({ costs: { USD: 0.75 }, tokens: {} });
  });

  test("follows a process that corrects itself", () => {
    const session = openSession();
    costs(session, 0.5);
    costs(session, 0.25);
    expect(total(session)).toEqual({ costs: { USD: 0.25 }, tokens: {} });
  });

  test("is kept by currency, and nothing else is one", () => {
    const session = openSession();
    costs(session, 1);
    costs(session, 2, "eur");
    costs(session, 3, "__proto__");
    costs(session, "4");
    for (let i = 0; i < 10; i += 1) costs(session, 1, `X${i}`);
    expect(total(session)).toEqual({ costs: { USD: 1, EUR: 2, X0: 1, X1: 1 }, tokens: {} });
  });
});

describe("the tokens of a session", () => {
  test("of each turn add up", () => {
    const session = openSession();
    turn(session, { totalTokens: 100, inputTokens: 80 });
    turn(session, { totalTokens: 150, inputTokens: 120 });
    turn(session, { totalTokens: 50, inputTokens: 40 });
    expect(total(session)).toEqual({ costs: {}, tokens: { totalTokens: 300, inputTokens: 240 } });
  });
});

describe("the use of a day", () => {
  test("has what was added on that day", () => {
    const session = openSession();
    session.now = Date.parse("2026-03-01T23:59:00Z");
    costs(session, 1);
    turn(session, { totalTokens: 10 });
    session.now = Date.parse("2026-03-02T00:01:00Z");
    costs(session, 1.5);
    expect(indexEntry(session.state)?.usage).toMatchObject([
      { day: "2026-03-01", subject: "me", workspace: "w", costs: '{"USD":1}', totalTokens: 10 },
      { day: "2026-03-02", costs: '{"USD":0.5}', totalTokens: 0, lastSeq: session.state.lastSeq },
    ]);
    for (let day = 1; day < 40; day += 1) {
      session.now += DAY_MS;
      costs(session, 1.5 + day);
    }
    expect(session.state.report.usage?.days).toHaveLength(31);
    expect(indexEntry(session.state)?.usage).toHaveLength(2);
  });

  test("[I4] is a fold of the log", () => {
    const session = openSession();
    costs(session, 1);
    restart(session);
    costs(session, 0.5);
    const folded = initialState(session.state.sessionId);
    for (const event of session.log) apply(folded, event);
    expect(folded).toEqual(session.state);
  });

  test("begins anew in a copy, whose agent may go on from the totals of the original", () => {
    const session = openSession();
    costs(session, 1);
    const from = { format: "fork" as const, acpxRecordId: "x", lastSeq: session.state.lastSeq, whole: true };
    const place = { tenant: "t", owner: "me", workspace: "w", agent: "codex", cwd: "/", request: 1 };
    session.step((batch) => {
      batch.fact("gateway", "session.imported", {
        ...place,
        from: { ...from, tenant: null, owner: null, workspace: null },
      });
    });
    expect(total(session)).toEqual({ costs: { USD: 0 }, tokens: {} });
    costs(session, 1.25);
    expect(total(session)).toEqual({ costs: { USD: 0.25 }, tokens: {} });
    expect(indexEntry(session.state)?.usage).toMatchObject([{ costs: '{"USD":0.25}' }]);
  });
});
