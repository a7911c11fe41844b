import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  callObject,
  isUnavailable,
  pauseMs,
  RESPONSE_MS,
  SilentObject,
} from "../../../src/durable/object-call.ts";

beforeEach(() => {
  vi.useFakeTimers();
  vi.spyOn(console, "warn").mockImplementation(() => {});
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** The marks of errors, as workerd sets them: see the tests with a real reset in test/workerd/durable/. */
const RESET = { durableObjectReset: true };
const DISCONNECTED = { retryable: true };
const OVERLOADED = { retryable: true, overloaded: true };
const THROWN = { remote: true };

const marked = (marks: object) => Object.assign(new Error("x"), marks);

/** An object that fails with these marks, one call after another, and then responds. */
function failing(...failures: object[]) {
  let stubs = 0;
  let calls = 0;
  const find = () => {
    stubs += 1;
    return stubs;
  };
  const result = settled(
    callObject(find, async (stub) => {
      calls += 1;
      const marks = failures.shift();
      if (marks) throw marked(marks);
      return `response on stub ${stub}`;
    }),
  );
  return { result, calls: () => calls };
}

/** The outcome of a call, however long its pauses are. */
async function settled<T>(call: Promise<T>): Promise<T> {
  const outcome = Promise.allSettled([call]);
  await vi.runAllTimersAsync();
  const [result] = await outcome;
  if (result.status === "rejected") throw result.reason;
  return result.value;
}

describe("a call to another object", () => {
  test.each([
    ["was reset", RESET],
    ["could not be reached", DISCONNECTED],
  ])("is tried again, on a new stub, when the object %s", async (_, marks) => {
    const { result } = failing(marks, marks);
    expect(await result).toBe("response on stub 3");
  });

  test("ends with the error after three tries", async () => {
    const { result, calls } = failing(RESET, RESET, RESET);
    await expect(result).rejects.toMatchObject(RESET);
    expect(calls()).toBe(3);
  });

  test.each([
    ["is overloaded", OVERLOADED],
    ["is overloaded, says another object", { ...OVERLOADED, ...THROWN }],
    ["has thrown an error", THROWN],
    ["has failed to call another object", { ...THROWN, ...RESET }],
    ["could not be called at all", {}],
  ])("is not tried again when the object %s", async (_, marks) => {
    const { result, calls } = failing(marks);
    await expect(result).rejects.toMatchObject(marks);
    expect(calls()).toBe(1);
  });

  test("pauses longer after each try, and never as long as another caller", () => {
    expect([pauseMs(1, 0), pauseMs(1, 1), pauseMs(2, 0), pauseMs(2, 1)]).toEqual([50, 150, 200, 600]);
  });

  test("ends when the object does not respond in time, and is not tried again", async () => {
    const never = vi.fn(() => new Promise<string>(() => {}));
    await expect(settled(callObject(() => 0, never, { timeoutMs: 10_000 }))).rejects.toThrow(SilentObject);
    expect(never).toHaveBeenCalledOnce();
  });

  test("ends also if its caller names no time", async () => {
    const ended = vi.fn();
    const never = () => new Promise<string>(() => {});
    callObject(() => 0, never).catch(ended);
    await vi.advanceTimersByTimeAsync(RESPONSE_MS);
    expect(ended).toHaveBeenCalledWith(expect.any(SilentObject));
  });

  test("leaves no timer behind when the object responds", async () => {
    const respond = async () => "response";
    expect(await callObject(() => 0, respond, { timeoutMs: 10_000 })).toBe("response");
    expect(vi.getTimerCount()).toBe(0);
  });

  test("tells an object that cannot respond now from an error of our own", () => {
    const unavailable = [RESET, DISCONNECTED, OVERLOADED, { ...THROWN, ...OVERLOADED }].map(marked);
    expect([...unavailable, new SilentObject(1)].map(isUnavailable)).not.toContain(false);
    expect([marked(THROWN), new TypeError("x"), undefined].map(isUnavailable)).not.toContain(true);
  });
});
