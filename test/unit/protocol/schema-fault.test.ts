import { describe, expect, test } from "vitest";
import { z } from "zod";
import { clipMessage } from "../../../src/protocol/clipped-text.ts";
import { errorResponse } from "../../../src/protocol/errors.ts";
import { schemaFault } from "../../../src/protocol/schema-fault.ts";

describe("the fault of a value", () => {
  const fault = (schema: z.ZodType, value: unknown) => {
    const { error } = schema.safeParse(value);
    return error ? schemaFault(error) : undefined;
  };

  test("is one sentence with the place of the fault", () => {
    const schema = z.object({
      cursor: z.string().regex(/^x/u, "not a cursor"),
      _meta: z.object({ n: z.number() }),
    });
    expect(fault(schema, { cursor: "a", _meta: { n: 1 } })).toBe("cursor: not a cursor");
    const both = fault(schema, { cursor: "a", _meta: { n: "1" } });
    expect(both).toMatch(/^cursor: not a cursor; _meta\.n: /u);
    expect(fault(z.string(), 1)).not.toContain(":  ");
  });

  test("names a few of many", () => {
    const faults = fault(
      z.array(z.string()),
      Array.from({ length: 10 }, () => 1),
    );
    expect(faults).toMatch(/; and 7 more$/u);
  });
});

test("no error message has a line break, whatever it quotes", () => {
  expect(clipMessage("one\r\n  two\n\nthree \u2028four")).toBe("one two three four");
  expect(errorResponse("1", { code: -32603, message: "a\nb" })).toContain('"message":"a b"');
});
