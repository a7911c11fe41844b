import { describe, expect, test } from "vitest";
import { isPattern, matchesPattern } from "../../../src/protocol/name-pattern.ts";

describe("a name pattern", () => {
  test.each([
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
  ])("%s matches %s: %s", (pattern, name, matches) => {
    expect(matchesPattern(pattern, name)).toBe(matches);
  });

  test("has at most one star", () => {
    expect(["", "a", "*", "a*b"].every(isPattern)).toBe(true);
    expect(isPattern("a*b*")).toBe(false);
  });
});
