import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { FrameOutbox } from "../../../src/connection/frame-outbox.ts";
import { accepted } from "../../../src/protocol/refusal.ts";

const LIMITS = { deliverChars: 10, frameRetryMs: 30_000 };

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("frames that wait go in calls of a limited size, in order, and a larger frame goes alone", async () => {
  const calls: string[][] = [];
  const outbox = new FrameOutbox(async (batch) => {
    calls.push(batch.map(({ frame }) => frame));
    return accepted({ failed: [] });
  }, LIMITS);
  const frames = ["a", "bbbb", "cccc", "dd", "e".repeat(25), "f", "g"];
  await Promise.all(frames.map((frame, number) => outbox.put({ frame, number }, () => {})));
  // The first frame left before the others came.
  expect(calls).toEqual([["a"], ["bbbb", "cccc", "dd"], ["e".repeat(25)], ["f", "g"]]);
  expect(outbox.isEmpty).toBe(true);
});

test("a call that fails refuses its own frames only", async () => {
  const refused: string[] = [];
  const outbox = new FrameOutbox(
    async ([first]) => {
      if (first?.frame === "bbbbbbbb") throw new Error("unreachable");
      return accepted({ failed: [] });
    },
    { ...LIMITS, frameRetryMs: 0 },
  );
  const frames = ["a", "bbbbbbbb", "cccc"];
  await Promise.all(frames.map((frame, number) => outbox.put({ frame, number }, () => refused.push(frame))));
  expect(refused).toEqual(["bbbbbbbb"]);
});

describe("frames for a session that does not respond", () => {
  test("are sent again with growing pauses, before those that came after them", async () => {
    const calls: string[][] = [];
    const refused: string[] = [];
    let failures = 5;
    const outbox = new FrameOutbox(async (batch) => {
      calls.push(batch.map(({ frame }) => frame));
      failures -= 1;
      if (failures >= 0) throw new Error("unreachable");
      return accepted({ failed: [] });
    }, LIMITS);
    const first = outbox.put({ frame: "a", number: 1 }, () => refused.push("a"));
    await vi.advanceTimersByTimeAsync(100);
    const second = outbox.put({ frame: "b", number: 2 }, () => refused.push("b"));
    await vi.advanceTimersByTimeAsync(20_000);
    await Promise.all([first, second]);
    expect(calls).toEqual([...Array(6).fill(["a"]), ["b"]]);
    expect(refused).toEqual([]);
  });

  test("are given up after a while, one batch after the other", async () => {
    const refused: unknown[] = [];
    const outbox = new FrameOutbox(() => Promise.reject(new Error("unreachable")), LIMITS);
    const sent = outbox.put({ frame: "a", number: 1 }, (why) => refused.push(why));
    await vi.advanceTimersByTimeAsync(LIMITS.frameRetryMs - 1000);
    expect(refused).toEqual([]);
    await vi.advanceTimersByTimeAsync(10_000);
    await sent;
    expect(refused).toEqual(["unreachable"]);
  });
});
