import { expect, test } from "vitest";
import { DEFAULT_TIMING, readTiming } from "../../../src/node/timing.ts";

test("timing is the default unless a number is overridden", () => {
  expect(readTiming(undefined)).toEqual(DEFAULT_TIMING);
  expect(readTiming("")).toEqual(DEFAULT_TIMING);
  expect(readTiming('{"lingerMs":5}')).toEqual({ ...DEFAULT_TIMING, lingerMs: 5 });
});

test.each([
  ['{"noSuchMs":5}', "noSuchMs"],
  ['{"lingerMs":0}', "lingerMs must be a positive number"],
  ['{"lingerMs":"soon"}', "lingerMs must be a positive number"],
])("the wrong override %s is named", (text, message) => {
  expect(() => readTiming(text)).toThrow(message);
});
