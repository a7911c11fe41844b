import { afterEach, describe, expect, it } from "vitest";
import { LIMITS, overrideLimits } from "../../../src/protocol/limits.ts";

const original = { ...LIMITS };

afterEach(() => {
  overrideLimits(JSON.stringify(original));
});

describe("overrideLimits", () => {
  it("replaces the numbers it names and no others", () => {
    overrideLimits('{"queueLength": 3}');
    expect(LIMITS).toEqual({ ...original, queueLength: 3 });
  });

  it("leaves everything as it is when nothing is configured", () => {
    overrideLimits(undefined);
    overrideLimits("");
    expect(LIMITS).toEqual(original);
  });

  it.each([
    ['{"queueLenght": 3}', "queueLenght"],
    ['{"queueLength": 0}', "queueLength"],
    ['{"queueLength": "3"}', "queueLength"],
    ["[", "JSON"],
  ])("refuses %s with what is wrong", (text, words) => {
    expect(() => overrideLimits(text)).toThrow(words);
    expect(LIMITS).toEqual(original);
  });
});
