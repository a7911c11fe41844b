import { describe, expect, test } from "vitest";
import {
  amountsOf,
  billLines,
  dollarsOf,
  freeSessionsPerDay,
  limitUses,
  sessionBill,
  USUAL,
} from "../../cost/calculator.ts";
import type { Bill, MeasuredCounts } from "../../cost/steps.ts";

const step = (rows: number, calls = 0, messages = 0) => {
  const bills: Record<string, Bill> = {
    AcpSession: { rows, calls: 0, messages },
    TenantState: { rows: 0, calls, messages: 0 },
  };
  return { deliveries: 0, bills };
};

const COUNTS: MeasuredCounts = {
  steps: {
    host: step(1000),
    connect: step(10, 6),
    reconnect: step(8, 5),
    open: step(20, 4),
    turn: step(100, 90, 40),
    slowTurn: step(1000),
    idleHour: step(12, 12),
    end: step(30),
  },
  sessionBytes: { opened: 100_000, perUpdate: 500 },
};

describe("the calculator of costs", () => {
  test("adds up the steps of a session", () => {
    expect(sessionBill({ ...USUAL, turns: 2, idleHours: 0.5 }, COUNTS)).toEqual({
      rows: 10 + 20 + 200 + 6 + 30,
      calls: 6 + 4 + 180 + 6,
      messages: 80,
    });
  });

  test("bills twenty messages as one request", () => {
    const { requests } = amountsOf({ ...USUAL, turns: 1, idleHours: 0 }, COUNTS);
    expect(requests).toBe(6 + 4 + 90 + 40 / 20);
  });

  test("counts the history of all sessions, and their rows of the index", () => {
    const { storage } = amountsOf({ ...USUAL, sessions: 1000, turns: 1 }, COUNTS);
    expect(storage).toBeCloseTo((1000 * (100_000 + 200 * 500 + 1000)) / 1e9);
  });

  test("charges for the part that the plan does not include", () => {
    const usage = { ...USUAL, sessions: 1_000_000, turns: 1, idleHours: 0 };
    const amounts = amountsOf(usage, COUNTS);
    const rows = (isIncluded: boolean) =>
      billLines(amounts, { isIncluded }).find(({ name }) => name === "rowsWritten")?.dollars;
    expect(rows(false)).toBeCloseTo(160);
    expect(rows(true)).toBeCloseTo(110);
  });

  test("charges for the plan even if nothing is used", () => {
    const lines = billLines(amountsOf({ ...USUAL, sessions: 0 }, COUNTS), { isIncluded: true });
    expect(dollarsOf(lines, { isIncluded: true })).toBe(5);
  });

  test("names the limit first that is closest to being met", () => {
    const [first] = limitUses({ ...USUAL, sessions: 0, connections: 100_000 }, COUNTS);
    expect(first?.name).toContain("come back");
    expect(first?.used).toBe((100_000 * 5) / 60);
    expect(limitUses({ ...USUAL, sessions: 2_000_000 }, COUNTS)[0]?.name).toContain(
      "D1 database after a year",
    );
  });

  test("says how many sessions a day are free", () => {
    expect(freeSessionsPerDay({ ...USUAL, turns: 1, idleHours: 0 }, COUNTS)).toBe(625);
  });
});
