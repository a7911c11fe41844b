import { expect, test } from "vitest";
import { ago, brief, printable, table } from "../../../src/cli/text-format.ts";

test("foreign text cannot control the terminal", () => {
  expect(printable("a\u001b[2Jb\u0007\tc\nd\u009b1m")).toBe("a[2Jb\tc\nd1m");
});

test("brief text is one line of a given length", () => {
  expect(brief("  a\n\n b\u001b ")).toBe("a b");
  expect(brief("abcdef", 4)).toBe("abc…");
  expect(brief("abcd", 4)).toBe("abcd");
  expect(brief(null)).toBe("");
});

test("an age is shown in its largest unit", () => {
  const now = Date.UTC(2026, 0, 10);
  const age = (seconds: number) => ago(new Date(now - seconds * 1000).toISOString(), now);
  expect([0, 59, 60, 3599, 3600, 86_399, 86_400, 8 * 86_400].map(age)).toEqual([
    "0s",
    "59s",
    "1m",
    "59m",
    "1h",
    "23h",
    "1d",
    "8d",
  ]);
  expect(age(-5)).toBe("0s");
});

test("a table has columns as wide as their longest cell", () => {
  const plain = { colours: { bold: (text: string) => text } } as Parameters<typeof table>[2];
  expect(table(["A", "LONG", "C"], [["xx", "y", "z"]], plain)).toBe("A   LONG  C\nxx  y     z");
});
