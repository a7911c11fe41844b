import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Allowed, blank, each, members, scalars, shown } from "../../../src/protocol/allow-list.ts";

const MARKED = '"_meta":{"acp-edge/redacted":true}';
const THING = members({ ...scalars("id", "name"), parts: each(members(scalars("size"))) });

describe("an allowed value", () => {
  test("stays byte for byte where nothing else is there", () => {
    for (const text of [
      "{}",
      ' { "name" : "\\u00e9\\/", "id":12345678901234567890 } ',
      '{"id":1.0,"parts":[ {"size":1e400} ,{}],"name":null}',
      '{"parts":null}',
    ])
      expect(shown(text, THING)).toBe(text);
  });

  test("is all that is left of an object, byte for byte", () => {
    expect(shown('{"id":12345678901234567890,"x":{"id":1},"name":"\\u00e9"}', THING)).toBe(
      `{"id":12345678901234567890,"name":"\\u00e9",${MARKED}}`,
    );
    expect(shown('{"id":1,"parts":[{"size":1},{"size":2,"x":3}]}', THING)).toBe(
      `{"id":1,"parts":[{"size":1},{"size":2,${MARKED}}]}`,
    );
  });

  test("is dropped when its type is not as expected", () => {
    expect(shown('{"id":{"x":1},"name":["x"],"parts":"x"}', THING)).toBe(`{${MARKED}}`);
    expect(shown('{"parts":["x",{"size":1},["x"]]}', THING)).toBe(
      `{"parts":[{${MARKED}},{"size":1},{${MARKED}}]}`,
    );
    expect(shown('"x"', THING)).toBe(`{${MARKED}}`);
    expect(shown("[1]", "scalar")).toBe("null");
  });

  test("is the last member of the same name", () => {
    expect(shown('{"id":"x","id":"y"}', THING)).toBe(`{"id":"y",${MARKED}}`);
    expect(shown('{"id":"x","id":["y"]}', THING)).toBe(`{${MARKED}}`);
    expect(shown('{"n\\u0061me":"x","name":"y"}', THING)).toBe(`{"name":"y",${MARKED}}`);
  });

  test("is never an inherited property", () => {
    expect(shown('{"__proto__":{"x":1},"constructor":"x","toString":"x"}', THING)).toBe(`{${MARKED}}`);
  });

  test("may be the presence of a member", () => {
    const letter = members({ to: "scalar", text: blank('""') });
    expect(shown('{"to":"me","text":"x"}', letter)).toBe(`{"to":"me","text":"",${MARKED}}`);
    expect(shown('{"to":"me","text":""}', letter)).toBe('{"to":"me","text":""}');
    expect(shown('{"to":"me"}', letter)).toBe('{"to":"me"}');
  });

  test("may be anything, without its _meta", () => {
    expect(shown('{"a":[{"b":1,"_meta":{"x":1}}],"_meta":null}', "open")).toBe(
      `{"a":[{"b":1,${MARKED}}],${MARKED}}`,
    );
    expect(shown('{"a":[{"b":{}}]}', "open")).toBe('{"a":[{"b":{}}]}');
  });

  test("is dropped below a depth limit", () => {
    const deep = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
    expect(shown(deep, "open").length).toBeLessThan(1000);
    expect(shown(`[${deep}]`, each("scalar"))).toBe("[]");
    expect(shown(deep, "whole")).toBe(deep);
  });

  test("has no mark where there is no room for a mark", () => {
    expect(shown('{"id":1,"x":1}', members(scalars("id"), ""))).toBe('{"id":1}');
    expect(shown('{"x":1}', members(scalars("id"), ""))).toBe("{}");
  });
});

describe("any filtered text", () => {
  const allowed: Allowed = members({
    a: "scalar",
    b: each("open"),
    c: members({ a: "scalar" }),
    d: blank("[]"),
  });
  const key = fc.constantFrom("a", "b", "c", "d", "_meta", "x");
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { depthSize: "small" },
      fc.constantFrom("1", "null", "true", '"text"'),
      fc.array(tie("any"), { maxLength: 3 }).map((items) => `[${items.join(" , ")}]`),
      fc
        .array(fc.tuple(key, tie("any")), { maxLength: 4 })
        .map((entries) => `{${entries.map(([name, text]) => `"${name}": ${text}`).join(",")}}`),
    ),
  })).any as fc.Arbitrary<string>;

  test("is still JSON, and filtering it twice changes nothing more", () => {
    fc.assert(
      fc.property(value, (text) => {
        const once = shown(text, allowed);
        JSON.parse(once);
        expect(shown(once, allowed)).toBe(once);
      }),
    );
  });
});
