import { describe, expect, it } from "vitest";
import { isPattern, matchesPattern } from "../../../src/protocol/name-pattern.ts";

describe("patterns", () => {
  it.each([
    ["a", "a", true],
    ["a", "ab", false],
    ["*", "", true],
    ["*", "anything", true],
    ["team-*", "team-a", true],
    ["team-*", "team", false],
    ["*-prod", "a-prod", true],
    ["a*a", "a", false],
    ["a*a", "aa", true],
    ["a*b", "a/x/b", true],
    ["w?", "wx", false],
    ["w[ab]*", "wa", false],
    ["A*", "ab", false],
  ])("%s and %s: %s", (pattern, name, matches) => {
    expect(matchesPattern(pattern, name)).toBe(matches);
  });

  it("have one star", () => {
    expect(["", "a", "*", "a*b"].every(isPattern)).toBe(true);
    expect(isPattern("a*b*")).toBe(false);
  });
});
