import { describe, expect, test } from "vitest";
import { isRecord, parseJson, recordOf, textOf, textOrNull } from "../../../src/protocol/json-value.ts";

describe("recordOf", () => {
  test("returns an object itself", () => {
    const value = { a: 1 };
    expect(recordOf(value)).toBe(value);
  });

  test.each([null, undefined, 1, "text", true, [1]])("returns an empty object for %j", (value) => {
    expect(isRecord(value)).toBe(false);
    expect(recordOf(value)).toEqual({});
  });
});

test("textOf and textOrNull accept strings only", () => {
  expect([textOf("a"), textOf(1), textOf(null)]).toEqual(["a", undefined, undefined]);
  expect([textOrNull("a"), textOrNull(1), textOrNull(undefined)]).toEqual(["a", null, null]);
});

test("parseJson returns undefined for a text that is not JSON", () => {
  expect(parseJson('{"a":[1]}')).toEqual({ a: [1] });
  expect(parseJson("{")).toBeUndefined();
  expect(parseJson("")).toBeUndefined();
});
