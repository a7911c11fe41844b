import { Ajv } from "ajv";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { answerProblems, badAnswer, valueFromTexts } from "../../../src/protocol/question-answer.ts";
import { formFields } from "../../../src/protocol/question-form.ts";

type Json = Record<string, unknown>;

const form = (properties: Json, required: string[] = []) => ({ type: "object", properties, required });
const problems = (property: Json, value: unknown) =>
  answerProblems(form({ f: property }), { f: value }).map(({ field, message }) => `${field} ${message}`);

describe("an answer", () => {
  test.each<[Json, unknown, string | undefined]>([
    [{ type: "string" }, "x", undefined],
    [{ type: "string" }, 5, "f must be a text"],
    [{ type: "string", minLength: 2 }, "😀", "f must have at least 2 characters"],
    [{ type: "string", maxLength: 1 }, "😀", undefined],
    [{ type: "string", maxLength: 1 }, "ab", "f must have at most 1 characters"],
    [{ type: "string", enum: ["a", "b"] }, "c", 'f must be one of "a", "b"'],
    [{ type: "string", oneOf: [{ const: "a", title: "A" }] }, "A", 'f must be one of "a"'],
    [{ type: "string", oneOf: [{ const: "a", title: "A" }] }, "a", undefined],
    [{ type: "string", format: "email" }, "ada@example.com", undefined],
    [{ type: "string", format: "email" }, "ada@", "f must be an e-mail address"],
    [{ type: "string", format: "email" }, "a@b@c", "f must be an e-mail address"],
    [{ type: "string", format: "uri" }, "https://example.com/a?b", undefined],
    [{ type: "string", format: "uri" }, "example.com", "f must be an address such as https://example.com"],
    [{ type: "string", format: "date" }, "2024-02-29", undefined],
    [{ type: "string", format: "date" }, "2023-02-29", "f must be a date such as 2026-01-31"],
    [{ type: "string", format: "date" }, "2023-13-01", "f must be a date such as 2026-01-31"],
    [{ type: "string", format: "date-time" }, "2026-01-31T12:00:00.5+02:00", undefined],
    [
      { type: "string", format: "date-time" },
      "2026-01-31T24:00:00Z",
      "f must be a time such as 2026-01-31T12:00:00Z",
    ],
    [{ type: "string", format: "date-time" }, "2026-01-31", "f must be a time such as 2026-01-31T12:00:00Z"],
    [{ type: "string", format: "_vendor" }, "anything", undefined],
    [{ type: "string", pattern: "(a+)+$" }, `${"a".repeat(60)}!`, undefined],
    [{ type: "string", minLength: null, enum: null }, "", undefined],
    [{ type: "number", minimum: 0, maximum: 1 }, 0.5, undefined],
    [{ type: "number", minimum: 0 }, -1, "f must be at least 0"],
    [{ type: "number", maximum: 1 }, 2, "f must be at most 1"],
    [{ type: "number" }, "1", "f must be a number"],
    [{ type: "integer" }, 1.5, "f must be a whole number"],
    [{ type: "boolean" }, false, undefined],
    [{ type: "boolean" }, "false", "f must be true or false"],
    [{ type: "array", items: { type: "string", enum: ["a", "b"] } }, ["a"], undefined],
    [{ type: "array", items: { anyOf: [{ const: "a", title: "A" }] } }, ["b"], 'f may have only "a"'],
    [
      { type: "array", minItems: 1, items: { type: "string", enum: ["a"] } },
      [],
      "f must have at least 1 of its values",
    ],
    [
      { type: "array", maxItems: 1, items: { type: "string", enum: ["a"] } },
      ["a", "a"],
      "f must have at most 1 of its values",
    ],
    [{ type: "array", items: { type: "string", enum: ["a"] } }, "a", "f must be a list of texts"],
    [{ type: "_vendor" }, { nested: true }, "f must be a text, a number, true or false, or a list of texts"],
    [{ type: "_vendor" }, ["a"], undefined],
    [{}, null, "f must be a text, a number, true or false, or a list of texts"],
  ])("to the field %j with %j", (property, value, problem) => {
    expect(problems(property, value)).toEqual(problem === undefined ? [] : [problem]);
  });

  test("has the required fields and no others", () => {
    const schema = form({ name: { type: "string" } }, ["name"]);
    expect(answerProblems(schema, {})).toEqual([{ field: "name", message: "is required" }]);
    expect(answerProblems(schema, { name: "Ada", toString: "?" })).toEqual([
      { field: "toString", message: "is no field of the form" },
    ]);
    expect(answerProblems(schema, JSON.parse('{"name":"Ada","__proto__":"?"}'))).toHaveLength(1);
  });

  test("has content only if it accepts a form", () => {
    const params = { mode: "form", requestedSchema: form({ name: { type: "string" } }, ["name"]) };
    expect(badAnswer(params, { action: "accept", content: { name: "Ada" } })).toBeUndefined();
    expect(badAnswer(params, { action: "decline" })).toBeUndefined();
    expect(badAnswer(params, { action: "decline", content: {} })).toMatchObject({ reason: "invalid" });
    expect(badAnswer({ mode: "url" }, { action: "accept" })).toBeUndefined();
    expect(badAnswer({ mode: "url" }, { action: "accept", content: {} })).toMatchObject({
      reason: "invalid",
    });
    expect(badAnswer(params, { action: "accept" })).toEqual({
      reason: "bad-answer",
      message: 'The answer does not fit the form: "name" is required',
      fields: [{ field: "name", message: "is required" }],
    });
  });
});

test("texts become values of the field's type, or stay texts", () => {
  const [n, b, l, t] = formFields(
    form({
      n: { type: "integer" },
      b: { type: "boolean" },
      l: { type: "array", items: { type: "string", enum: ["a", "b"] } },
      t: { type: "string" },
    }),
  ) as [never, never, never, never];
  expect([valueFromTexts(n, ["5"]), valueFromTexts(n, ["five"]), valueFromTexts(n, [" "])]).toEqual([
    5,
    "five",
    " ",
  ]);
  expect([valueFromTexts(b, ["yes"]), valueFromTexts(b, ["off"]), valueFromTexts(b, ["?"])]).toEqual([
    true,
    false,
    "?",
  ]);
  expect(valueFromTexts(l, ["a", "b"])).toEqual(["a", "b"]);
  expect(valueFromTexts(t, ["5"])).toBe("5");
});

// ---- the check agrees with a validator of JSON schema

const WORDS = ["a", "bb", "ccc", "😀", ""];
const word = fc.constantFrom(...WORDS);
const titled = fc
  .uniqueArray(word, { minLength: 1 })
  .map((all) => all.map((value) => ({ const: value, title: "T" })));
const words = fc.uniqueArray(word, { minLength: 1 });
const small = fc.integer({ min: 0, max: 3 });
const property = fc.oneof(
  fc.record({ type: fc.constant("string"), minLength: small, maxLength: small }, { requiredKeys: ["type"] }),
  fc.record(
    { type: fc.constant("string"), enum: words, oneOf: titled, maxLength: small },
    { requiredKeys: ["type"] },
  ),
  fc.record(
    { type: fc.constantFrom("number", "integer"), minimum: fc.integer({ min: -2, max: 2 }), maximum: small },
    { requiredKeys: ["type"] },
  ),
  fc.record({ type: fc.constant("boolean") }),
  fc.record(
    {
      type: fc.constant("array"),
      items: fc.oneof(
        words.map((values) => ({ type: "string", enum: values })),
        titled.map((anyOf) => ({ anyOf })),
      ),
      minItems: small,
      maxItems: small,
    },
    { requiredKeys: ["type", "items"] },
  ),
);
const value = fc.oneof(
  word,
  fc.constantFrom(-3, -1, 0, 0.5, 1, 2, 4, true, false, null),
  fc.array(word, { maxLength: 4 }),
  fc.array(fc.constantFrom(1, "a"), { maxLength: 2 }),
);
const names = fc.constantFrom("x", "y");

test("the check accepts exactly what the schema allows", () => {
  const ajv = new Ajv({ strict: false });
  let accepted = 0;
  fc.assert(
    fc.property(
      fc.dictionary(names, property, { minKeys: 1 }),
      fc.uniqueArray(names, { maxLength: 1 }),
      fc.array(fc.dictionary(names, value), { minLength: 30, maxLength: 30 }),
      (properties, required, contents) => {
        const schema = form(properties, required);
        const fits = ajv.compile({ ...schema, additionalProperties: false });
        for (const content of contents) {
          const found = answerProblems(schema, content);
          expect([schema, content, found.length === 0]).toEqual([schema, content, fits(content)]);
          if (found.length === 0) accepted += 1;
        }
      },
    ),
    { numRuns: 150 },
  );
  expect(accepted).toBeGreaterThan(100);
});
