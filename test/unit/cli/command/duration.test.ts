import { expect, test } from "vitest";
import { EXIT } from "../../../../src/cli/cli-error.ts";
import { parseDuration } from "../../../../src/cli/command/duration.ts";

test.each([
  ["30s", 30],
  ["5m", 300],
  ["12h", 43_200],
  ["7d", 604_800],
])("%s is %i seconds", (text, seconds) => {
  expect(parseDuration(text)).toBe(seconds);
});

test.each(["", "7", "d", "1.5h", "-1m", "7 d", "1w", "1234567890s"])("%j is not a duration", (text) => {
  expect(() => parseDuration(text)).toThrow(expect.objectContaining({ code: EXIT.usage }));
});
