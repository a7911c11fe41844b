import { expect, test } from "vitest";
import { ByteLineSplitter } from "../../../../../src/session/transfer/object/byte-line-splitter.ts";

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function linesOf(pieces: readonly string[], maxBytes = 100): string[] {
  const splitter = new ByteLineSplitter(maxBytes);
  const lines = pieces.flatMap((piece) => [...splitter.push(bytes(piece))]);
  const rest = splitter.end();
  return [...lines, ...(rest ? [rest] : [])].map((line) => new TextDecoder().decode(line));
}

test("lines come out whole, however the bytes are cut", () => {
  expect(linesOf(["one\ntwo\n"])).toEqual(["one", "two"]);
  expect(linesOf(["o", "ne", "\nt", "wo", "\n"])).toEqual(["one", "two"]);
});

test("a line keeps its carriage return, and an empty line is a line", () => {
  expect(linesOf(["one\r\n\ntwo\n"])).toEqual(["one\r", "", "two"]);
});

test("a last line without a line feed comes out at the end", () => {
  expect(linesOf(["one\ntw", "o"])).toEqual(["one", "two"]);
});

test("the caller may reuse its buffer", () => {
  const splitter = new ByteLineSplitter(100);
  const buffer = bytes("abc");
  expect([...splitter.push(buffer)]).toEqual([]);
  buffer.fill(0x78);
  expect([...splitter.push(bytes("\n"))].map((line) => new TextDecoder().decode(line))).toEqual(["abc"]);
});

test("a line that is too long throws", () => {
  expect(() => linesOf(["12345", "678901\n"], 10)).toThrow("longer than 10 bytes");
});
