import { describe, expect, test } from "vitest";
import { decodeLink, encodeLink, parseHostEvent, splitNumbered } from "../../../src/protocol/host-wire.ts";

describe("a message of the host link", () => {
  test("carries its head and its lines unescaped", () => {
    const lines = ['{"a":"\\n"}', "[]"];
    const text = encodeLink({ t: "lines", first: 3 }, lines);
    expect(text.split("\n")).toEqual(['{"t":"lines","first":3}', ...lines]);
    expect(decodeLink(text)).toEqual({ head: { t: "lines", first: 3 }, lines });
  });

  test("is its head alone if it has no lines", () => {
    expect(encodeLink({ t: "ack", received: 7 })).toBe('{"t":"ack","received":7}');
    expect(decodeLink('{"t":"ack","received":7}')).toEqual({ head: { t: "ack", received: 7 }, lines: [] });
  });

  test("has no head when the first line is not JSON", () => {
    expect(decodeLink("hello\nworld")).toEqual({ head: undefined, lines: ["world"] });
  });
});

describe("parseHostEvent", () => {
  test.each([
    '["started",{"pid":null,"command":"agent"}]',
    '["noise","text"]',
    '["dropped","text"]',
    '["exit",{"code":1,"signal":null,"stderr":""}]',
  ])("reads %s", (line) => {
    expect(parseHostEvent(line)).toEqual(JSON.parse(line));
  });

  test.each(["[]", "[", '["noise"]', '["exit",{}]', '["unknown","x"]', "{}"])("refuses %s", (line) => {
    expect(parseHostEvent(line)).toBeUndefined();
  });
});

test("a numbered line is split at its first space", () => {
  expect(splitNumbered('12 {"a": 1}')).toEqual({ seq: 12, frame: '{"a": 1}' });
});
