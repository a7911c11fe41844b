import { afterEach, describe, expect, test, vi } from "vitest";
import { ReconnectDelay } from "../../../src/node/reconnect-delay.ts";
import { DEFAULT_TIMING } from "../../../src/node/timing.ts";

afterEach(() => void vi.restoreAllMocks());

const REMOTE = "wss://gateway.example/acp";
const LOCAL = ["http://127.0.0.1:8787", "ws://localhost:1/acp", "http://[::1]:9"];

/** The shortest and the longest delay that `next` may return. */
function range(next: () => number): [number, number] {
  const random = vi.spyOn(Math, "random");
  const bounds = [0, 1].map((chance) => {
    random.mockReturnValue(chance);
    return next();
  });
  return [bounds[0] ?? 0, bounds[1] ?? 0];
}

describe("the delay before a lost socket is dialled again", () => {
  test("spreads the clients of a gateway that cut them all", () => {
    const first = () => new ReconnectDelay(REMOTE, DEFAULT_TIMING).next(true);
    expect(range(first)).toEqual([500, 5000]);
  });

  test.each(LOCAL)("is short for a gateway on this machine: %s", (url) => {
    const first = () => new ReconnectDelay(url, DEFAULT_TIMING).next(true);
    expect(range(first)).toEqual([0, 500]);
  });

  test("grows after failures, with full jitter, up to the maximum", () => {
    const delays = [2, 3, 4, 40].map((attempt) =>
      range(() => {
        const delay = new ReconnectDelay(REMOTE, DEFAULT_TIMING);
        for (let i = 1; i < attempt; i += 1) delay.next(i === 1);
        return delay.next(false);
      }),
    );
    expect(delays).toEqual([
      [0, 500],
      [0, 1000],
      [0, 2000],
      [0, 10_000],
    ]);
  });

  test("is not spread when the first dial fails: nobody was cut off", () => {
    const first = () => new ReconnectDelay(REMOTE, DEFAULT_TIMING).next(false);
    expect(range(first)).toEqual([0, 250]);
  });

  test("is spread again after the gateway has taken or given something", () => {
    const delay = new ReconnectDelay(REMOTE, DEFAULT_TIMING);
    delay.next(true);
    expect(delay.isSpread).toBe(true);
    delay.next(true);
    expect(delay.isSpread).toBe(false);
    delay.reset();
    expect(range(() => new ReconnectDelay(REMOTE, DEFAULT_TIMING).next(true))).toEqual([500, 5000]);
    expect(delay.next(true)).toBeGreaterThanOrEqual(500);
  });

  test("varies when the gateway has asked for a pause, which is long all the same", () => {
    const pause = () => new ReconnectDelay(REMOTE, DEFAULT_TIMING).pause();
    expect(range(pause)).toEqual([5000, 10_000]);
  });

  test("never exceeds the longest delay of its owner", () => {
    const first = () => new ReconnectDelay(REMOTE, { ...DEFAULT_TIMING, retryMaxMs: 50 }).next(true);
    expect(range(first)).toEqual([50, 50]);
  });
});
