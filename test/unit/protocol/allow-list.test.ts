import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Allowed,
  applyAllowList,
  blank,
  byTag,
  each,
  members,
  scalars,
} from "../../../src/protocol/allow-list.ts";

const MARKED = '"_meta":{"acp-edge/redacted":true}';
const THING = members({ ...scalars("id", "name"), parts: each(members(scalars("size"))) });

describe("a value with a kind", () => {
  const BLOCK = byTag("type", { text: members(scalars("type", "text")) }, members(scalars("type")));

  test("shows the members of its own kind, and of an unknown kind the name", () => {
    expect(applyAllowList('{"type":"text","text":"a"}', BLOCK)).toBe('{"type":"text","text":"a"}');
    expect(applyAllowList('{"type":"file","text":"a"}', BLOCK)).toBe(`{"type":"file",${MARKED}}`);
    expect(applyAllowList('{"text":"a"}', BLOCK)).toBe(`{${MARKED}}`);
  });

  test("has the kind that a reader of JSON sees", () => {
    expect(applyAllowList('{"type":"text","text":"a","type":"file"}', BLOCK)).not.toContain('"a"');
    expect(applyAllowList('{"\\u0074ype":"file","text":"a"}', BLOCK)).not.toContain('"a"');
    expect(applyAllowList('{"type":["text"],"text":"a"}', BLOCK)).not.toContain('"a"');
  });
});

describe("an allowed value", () => {
  test("stays byte for byte where nothing else is there", () => {
    for (const text of [
      "{}",
      ' { "name" : "\\u00e9\\/", "id":12345678901234567890 } ',
      '{"id":1.0,"parts":[ {"size":1e400} ,{}],"name":null}',
      '{"parts":null}',
    ])
      expect(applyAllowList(text, THING)).toBe(text);
  });

  test("is all that is left of an object, byte for byte", () => {
    expect(applyAllowList('{"id":12345678901234567890,"x":{"id":1},"name":"\\u00e9"}', THING)).toBe(
      `{"id":12345678901234567890,"name":"\\u00e9",${MARKED}}`,
    );
    expect(applyAllowList('{"id":1,"parts":[{"size":1},{"size":2,"x":3}]}', THING)).toBe(
      `{"id":1,"parts":[{"size":1},{"size":2,${MARKED}}]}`,
    );
  });

  test("is dropped when its type is not as expected", () => {
    expect(applyAllowList('{"id":{"x":1},"name":["x"],"parts":"x"}', THING)).toBe(`{${MARKED}}`);
    expect(applyAllowList('{"parts":["x",{"size":1},["x"]]}', THING)).toBe(
      `{"parts":[{${MARKED}},{"size":1},{${MARKED}}]}`,
    );
    expect(applyAllowList('"x"', THING)).toBe(`{${MARKED}}`);
    expect(applyAllowList("[1]", "scalar")).toBe("null");
  });

  test("is the last member of the same name", () => {
    expect(applyAllowList('{"id":"x","id":"y"}', THING)).toBe(`{"id":"y",${MARKED}}`);
    expect(applyAllowList('{"id":"x","id":["y"]}', THING)).toBe(`{${MARKED}}`);
    expect(applyAllowList('{"n\\u0061me":"x","name":"y"}', THING)).toBe(`{"name":"y",${MARKED}}`);
  });

  test("is never an inherited property", () => {
    expect(applyAllowList('{"__proto__":{"x":1},"constructor":"x","toString":"x"}', THING)).toBe(
      `{${MARKED}}`,
    );
  });

  test("may be the presence of a member", () => {
    const letter = members({ to: "scalar", text: blank('""') });
    expect(applyAllowList('{"to":"me","text":"x"}', letter)).toBe(`{"to":"me","text":"",${MARKED}}`);
    expect(applyAllowList('{"to":"me","text":""}', letter)).toBe('{"to":"me","text":""}');
    expect(applyAllowList('{"to":"me"}', letter)).toBe('{"to":"me"}');
  });

  test("may be anything, without its _meta", () => {
    expect(applyAllowList('{"a":[{"b":1,"_meta":{"x":1}}],"_meta":null}', "open")).toBe(
      `{"a":[{"b":1,${MARKED}}],${MARKED}}`,
    );
    expect(applyAllowList('{"a":[{"b":{}}]}', "open")).toBe('{"a":[{"b":{}}]}');
  });

  test("is dropped below a depth limit", () => {
    const deep = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
    expect(applyAllowList(deep, "open").length).toBeLessThan(1000);
    expect(applyAllowList(`[${deep}]`, each("scalar"))).toBe("[]");
    expect(applyAllowList(deep, "whole")).toBe(deep);
  });

  test("has no mark where there is no room for a mark", () => {
    expect(applyAllowList('{"id":1,"x":1}', members(scalars("id"), ""))).toBe('{"id":1}');
    expect(applyAllowList('{"x":1}', members(scalars("id"), ""))).toBe("{}");
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
        const once = applyAllowList(text, allowed);
        JSON.parse(once);
        expect(applyAllowList(once, allowed)).toBe(once);
      }),
    );
  });
});
