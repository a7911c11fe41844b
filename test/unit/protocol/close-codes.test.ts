import { expect, test } from "vitest";
import { answerClose, CloseCode } from "../../../src/protocol/close-codes.ts";
import { sourceFiles, sourceText } from "../../fixtures/source-files.ts";

test.each([
  [CloseCode.normal, CloseCode.normal],
  [CloseCode.superseded, CloseCode.superseded],
  [CloseCode.absent, CloseCode.normal],
  [CloseCode.lost, CloseCode.normal],
  [CloseCode.tlsFailed, CloseCode.normal],
])("a close with %i is answered with %i", (received, answered) => {
  const closes: [number, string][] = [];
  answerClose({ close: (code, reason) => closes.push([code, reason]) }, received, "why");
  expect(closes).toEqual([[answered, "why"]]);
});

test("no two close codes are the same number", () => {
  const codes = Object.values(CloseCode);
  expect(new Set(codes).size).toBe(codes.length);
});

test("no source file closes a socket with a number of its own", () => {
  const literal = /\.close\((1\d{3}|4\d{3})\b/;
  expect(sourceFiles("src").filter((path) => literal.test(sourceText(path)))).toEqual([]);
});
