import { expect, test } from "vitest";
import { cursorAfter, encodeCursor, isSameCursor, parseCursor } from "../../../src/protocol/cursor.ts";

test("a cursor between two events survives its text", () => {
  const cursor = { attachment: 3, seq: 17 };
  expect(encodeCursor(cursor)).toBe("3.17");
  expect(parseCursor("3.17")).toEqual(cursor);
});

test.each(["", "3", "3.", "3.17.0", "-3.17", "3.1e3", `${"9".repeat(16)}.1`])("%j is no cursor", (text) => {
  expect(parseCursor(text)).toBeUndefined();
});

test("cursors are the same only with the same attachment, event and part", () => {
  const cursor = cursorAfter({ attachment: 3, seq: 17 });
  expect(isSameCursor(cursor, { ...cursor })).toBe(true);
  for (const change of [{ attachment: 4 }, { seq: 18 }, { part: 1 }])
    expect(isSameCursor(cursor, { ...cursor, ...change })).toBe(false);
});
