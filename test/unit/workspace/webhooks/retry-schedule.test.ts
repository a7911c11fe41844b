import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import {
  admitted as admittedOf,
  readRetryAfter,
  retryAt as retryAtWith,
} from "../../../../src/workspace/webhooks/retry-schedule.ts";

const NOW = Date.parse("2030-01-01T00:00:00Z");
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

const retryAt = (attempts: number, now: number, random: number, retryAfterMs: number) =>
  retryAtWith(attempts, now, random, retryAfterMs, DEFAULT_LIMITS);
const admitted = <T extends { isFailing: boolean }>(waiting: T[], sending: { isFailing: boolean }[]) =>
  admittedOf(waiting, sending, DEFAULT_LIMITS.webhooksAtOnce);

describe("an undelivered webhook message", () => {
  test("is sent again after longer and longer pauses, and then given up", () => {
    const pauses = [1, 2, 3, 4, 5, 6, 7].map((attempts) => (retryAt(attempts, NOW, 0, 0) as number) - NOW);
    expect(pauses).toEqual([
      ...[5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE],
      ...[HOUR, 4 * HOUR, 12 * HOUR],
    ]);
    expect(retryAt(8, NOW, 0, 0)).toBeUndefined();
  });

  test("is not sent again in step with others, and never too early", () => {
    for (const random of [0, 0.3, 0.999]) {
      const pause = (retryAt(2, NOW, random, 0) as number) - NOW;
      expect(pause).toBeGreaterThanOrEqual(30 * SECOND);
      expect(pause).toBeLessThanOrEqual(36 * SECOND);
    }
    expect(retryAt(2, NOW, 0.1, 0)).not.toBe(retryAt(2, NOW, 0.9, 0));
  });

  test("waits for as long as its receiver asks, within bounds", () => {
    expect(retryAt(1, NOW, 0, MINUTE)).toBe(NOW + MINUTE);
    expect(retryAt(3, NOW, 0, MINUTE)).toBe(NOW + 2 * MINUTE);
    expect(retryAt(1, NOW, 0, 30 * 24 * HOUR)).toBe(NOW + DEFAULT_LIMITS.webhookRetryAfterMs);
    expect(retryAt(8, NOW, 0, MINUTE)).toBeUndefined();
  });

  test.each([
    ["120", 2 * MINUTE],
    [" 7 ", 7 * SECOND],
    ["0", 0],
    ["Tue, 01 Jan 2030 00:01:30 GMT", 90 * SECOND],
    ["Mon, 31 Dec 2029 00:00:00 GMT", 0],
    ["soon", 0],
    ["-5", 0],
    [null, 0],
  ])("waits by Retry-After: %s", (header, ms) => {
    expect(readRetryAfter(header, NOW)).toBe(ms);
  });
});

describe("a delivery to many receivers", () => {
  const well = (name: string) => ({ name, isFailing: false });
  const failing = (name: string) => ({ name, isFailing: true });
  const names = (all: { name: string }[]) => all.map(({ name }) => name);

  test("reaches a few at a time, in order", () => {
    const waiting = ["a", "b", "c", "d", "e"].map(well);
    expect(names(admitted(waiting, []))).toEqual(["a", "b", "c", "d"]);
    expect(names(admitted(waiting, ["x", "y", "z"].map(well)))).toEqual(["a"]);
    expect(admitted(waiting, ["w", "x", "y", "z"].map(well))).toEqual([]);
  });

  test("leaves room for others when some fail", () => {
    const dead = ["a", "b", "c", "d"].map(failing);
    expect(names(admitted([...dead, well("e"), well("f")], []))).toEqual(["a", "b", "e", "f"]);
    expect(names(admitted([failing("c"), well("e")], ["a", "b"].map(failing)))).toEqual(["e"]);
    expect(names(admitted([failing("c"), well("e")], [failing("a")]))).toEqual(["c", "e"]);
  });
});
