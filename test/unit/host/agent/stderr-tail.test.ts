import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StderrTail } from "../../../../src/host/agent/stderr-tail.ts";
import { Redactor } from "../../../../src/host/redaction/redactor.ts";

describe("the stderr tail", () => {
  test("keeps the end of the output", () => {
    const tail = new StderrTail(5, new Redactor());
    for (const text of ["abc", "", "defg"]) tail.push(text);
    expect(tail.read()).toBe("cdefg");
  });

  test("contains no part of a secret that its beginning cuts", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 30 }), { maxLength: 10 }), fc.nat(12), (texts, at) => {
        const redactor = new Redactor();
        redactor.learn("NAME", "Zz!Secret#123");
        const tail = new StderrTail(40, redactor);
        const [first, second] = ["Zz!Secret#123".slice(0, at), "Zz!Secret#123".slice(at)];
        for (const text of [first, second, ...texts]) tail.push(text);
        expect(tail.read().length).toBeLessThanOrEqual(40);
        // Not even the end of the secret is left.
        expect(tail.read()).not.toContain("ret#123");
      }),
    );
  });
});
