import { expect, test } from "vitest";
import { filterAt, replaceAt, spanAt } from "../../../src/protocol/json-edit.ts";

const RAW = '{ "a" : {"b":[1.0, {"c":12345678901234567890} ,"x"]},"a2":null}';

test("changes one value and leaves every other byte alone", () => {
  expect(replaceAt(RAW, ["a", "b"], "[]")).toBe('{ "a" : {"b":[]},"a2":null}');
  expect(replaceAt(RAW, ["a", "none"], "[]")).toBe(RAW);
  expect(replaceAt(RAW, ["a2", "b"], "[]")).toBe(RAW);
  expect(spanAt('{"a":1,"a":2}', ["a"])).toEqual({ start: 11, end: 12 });
});

test("takes elements out of an array", () => {
  const keeps = (element: unknown) => typeof element === "object";
  expect(filterAt(RAW, ["a", "b"], keeps)).toBe('{ "a" : {"b":[{"c":12345678901234567890}]},"a2":null}');
  expect(filterAt('{"a":[ ]}', ["a"], keeps)).toBe('{"a":[]}');
  expect(filterAt(RAW, ["a2"], keeps)).toBe(RAW);
});
