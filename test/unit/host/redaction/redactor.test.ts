import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Redactor } from "../../../../src/host/redaction/redactor.ts";

describe("the redactor", () => {
  const secret = fc
    .string({ minLength: 8, maxLength: 40, unit: "binary" })
    .filter((s) => s.trim().length >= 8);

  test("removes a secret from plain text, from JSON, and from JSON within JSON", () => {
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), (value, before, after) => {
        const redactor = new Redactor();
        redactor.learn("NAME", value);
        const text = `${before}${value.trim()}${after}`;
        expect(redactor.redact(text)).toContain("[redacted:NAME]");
        const inJson = JSON.stringify({ text });
        const safe = JSON.parse(redactor.redactJson(inJson)) as { text: string };
        expect(safe.text).toContain("[redacted:NAME]");
        expect(safe.text).not.toContain(value.trim());
        expect(redactor.redactJson(JSON.stringify({ inJson }))).toContain("[redacted:NAME]");
      }),
      { numRuns: 1000, examples: [["\0  # #  #", "\\", ""]] },
    );
  });

  test("keeps JSON valid for any characters in a secret", () => {
    const awkward = fc.string({
      minLength: 8,
      maxLength: 12,
      unit: fc.constantFrom("\\", '"', "a", "\n", "u"),
    });
    fc.assert(
      fc.property(awkward, fc.jsonValue(), fc.string(), (value, content, more) => {
        const redactor = new Redactor();
        redactor.learn("NAME", value);
        const text = JSON.stringify({
          content,
          value,
          quoted: JSON.stringify(value),
          more: `${more}${value}"`,
        });
        expect(() => JSON.parse(redactor.redactJson(text))).not.toThrow();
      }),
      { numRuns: 1000 },
    );
  });

  test("prefers the longer of two secrets that overlap", () => {
    const redactor = new Redactor();
    redactor.learn("SHORT", "abcdefgh");
    redactor.learn("LONG", "abcdefghijkl");
    expect(redactor.redact("abcdefghijkl abcdefgh")).toBe("[redacted:LONG] [redacted:SHORT]");
  });

  test("ignores values that are too short to be secrets", () => {
    const redactor = new Redactor();
    redactor.learn("MODE", "secret");
    expect(redactor.redact("a secret")).toBe("a secret");
  });
});
