import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { NoiseLimit } from "../../../../src/host/agent/noise-limit.ts";

describe("noise", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test("is counted and reported once a second over the limit", () => {
    const reports: string[] = [];
    const limit = new NoiseLimit(2, (text) => reports.push(text));
    expect([limit.admit(), limit.admit(), limit.admit(), limit.admit()]).toEqual([true, true, false, false]);
    expect(reports).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(reports).toEqual(["(2 more lines like these were dropped)"]);
    expect(limit.admit()).toBe(true);
    vi.advanceTimersByTime(1000);
    expect(reports).toHaveLength(1);
  });
});
