import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS, readLimits } from "../../../src/protocol/limits.ts";

const original = { ...DEFAULT_LIMITS };

describe("readLimits", () => {
  test("replaces the numbers it names and no others", () => {
    expect(readLimits('{"queueLength": 3}')).toEqual({ ...original, queueLength: 3 });
    expect(DEFAULT_LIMITS).toEqual(original);
  });

  test("switches a limit off by 0 where that has a meaning", () => {
    expect(readLimits('{"chunkWindowMs": 0}').chunkWindowMs).toBe(0);
  });

  test.each([undefined, ""])("returns the defaults when the operator configures %j", (text) => {
    expect(readLimits(text)).toEqual(original);
  });

  test.each([
    ['{"queueLenght": 3}', "queueLenght"],
    ['{"queueLength": 0}', "queueLength"],
    ['{"chunkWindowMs": -1}', "chunkWindowMs must be a positive number or 0"],
    ['{"queueLength": "3"}', "queueLength"],
    ['{"toString": 3}', "toString"],
    ["[", "JSON object"],
    ["null", "JSON object"],
    ["3", "JSON object"],
  ])("refuses %s and names what is wrong", (text, words) => {
    expect(() => readLimits(text)).toThrow(words);
    expect(DEFAULT_LIMITS).toEqual(original);
  });
});
