import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Frame,
  isFault,
  mustReadFrame,
  oneLine,
  type Rewrite,
  readFrame,
  rewrite,
} from "../../../src/protocol/frame.ts";
import { MAX_DEPTH, MAX_VALUES } from "../../../src/protocol/json-text.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

function frame(raw: string): Frame {
  const read = readFrame(raw);
  if (isFault(read)) throw new Error(`not a frame: ${read.fault}`);
  return read;
}

const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);

describe("a response with both a result and an error", () => {
  test.each([
    [
      '{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"},"error":{"code":1}}',
      '{"jsonrpc":"2.0","id":9,"error":{"code":1}}',
    ],
    ['{"id":1, "error":{"code":1} , "result" : "x"}', '{"id":9, "error":{"code":1} }'],
    ['{ "\\u0072esult":[1,2],"error":{},"id":1}', '{ "error":{},"id":9}'],
    ['{"result":{"sessionId":"s"},"error":null,"id":1}', '{"result":{"sessionId":"t"},"id":9}'],
    ['{"id":1,"result":null,"error":null}', '{"id":9,"result":null}'],
  ])("%s is forwarded with one of them", (raw, forwarded) => {
    const read = frame(raw);
    expect(read.kind).toBe("response");
    const text = rewrite(read, { id: "9", sessionId: '"t"' });
    expect(text).toBe(forwarded);
    expect(read.value).toEqual(frame(rewrite(read, {})).value);
    expect(read.sessionId).toBe(frame(rewrite(read, {})).sessionId);
  });

  test("keeps the text of its sender", () => {
    const raw = '{"id":1,"result":{},"error":{}}';
    expect(frame(raw)).toMatchObject({ raw, value: { id: 1, error: {} } });
  });
});

describe("readFrame", () => {
  test.each([
    ['{"jsonrpc":"2.0","id":1,"method":"a"}', "request", "1"],
    ['{"id":null,"method":"a"}', "request", "null"],
    ['{"id":12345678901234567890,"method":"a"}', "request", "12345678901234567890"],
    ['{"id":1.0,"method":"a"}', "request", "1.0"],
    ['{"method":"a", "id" : "x\\u0041" }', "request", '"x\\u0041"'],
    ['{"method":"a","params":{"id":4}}', "notification", undefined],
    ['{"result":{"id":9},"id":3}', "response", "3"],
    ['{"\\u0069d":5,"error":{}}', "response", "5"],
    ['{"error":{"code":1}}', "invalid", undefined],
    ['{"method":7,"id":1}', "invalid", "1"],
    ["{}", "invalid", undefined],
  ])("reads %s as a %s", (raw, kind, idText) => {
    const read = frame(raw);
    expect(read.kind).toBe(kind);
    expect(read.idText).toBe(idText);
  });

  test.each([
    ["", "parse"],
    ["{", "parse"],
    ['{"a":1,}', "parse"],
    ["{'a':1}", "parse"],
    ["nul", "parse"],
    ["[]", "batch"],
    ["[{}]", "batch"],
    ["1", "not-object"],
    ["null", "not-object"],
    ['"x"', "not-object"],
    [`{"id":1,"method":"m","params":{"x":${nested(MAX_DEPTH + 1)}}}`, "too-complex"],
    [`{"id":1,"result":${nested(200_000)}}`, "too-complex"],
    [`{"x":${nested(8_000_000)}`, "too-complex"],
    [`{"method":"m","params":[${"[],".repeat(MAX_VALUES)}1]}`, "too-complex"],
    [`{"method":"m","params":{${'"k":0,'.repeat(MAX_VALUES)}"k":0}}`, "too-complex"],
    [`{"x":"${"[".repeat(2 * MAX_VALUES)}`, "parse"],
  ])("refuses %.40j", (raw, fault) => {
    expect(readFrame(raw)).toEqual({ fault });
  });

  test.each(["true", "[1]", '{"a":1}'])("takes no message with the id %s", (id) => {
    expect(frame(`{"id":${id},"method":"m"}`)).toMatchObject({ kind: "invalid", idText: undefined });
    expect(frame(`{"id":${id},"result":{}}`).kind).toBe("invalid");
  });

  test("takes a long text of few values, whatever its strings contain", () => {
    const text = JSON.stringify('[{,"'.repeat(MAX_VALUES));
    expect(frame(`{"id":1,"method":"m","params":{"text":${text}}}`).kind).toBe("request");
  });

  test("keeps a logged message that it would not take any more", () => {
    const raw = `{"id":1,"method":"m","params":${nested(5000)}}`;
    expect(mustReadFrame(raw)).toMatchObject({ kind: "invalid", raw });
  });

  test("finds the session of a request in params and of a response in result", () => {
    expect(frame('{"method":"m","params":{"sessionId":"s"},"result":{"sessionId":"no"}}').sessionId).toBe(
      "s",
    );
    expect(frame('{"id":1,"result":{"sessionId":"s"},"params":{"sessionId":"no"}}').sessionId).toBe("s");
    expect(frame('{"method":"m","params":{"sessionId":5}}').sessionId).toBeUndefined();
    expect(frame('{"method":"m","params":["sessionId"]}').sessionId).toBeUndefined();
  });

  test("takes the last of duplicate keys in a logged message, as JSON.parse does", () => {
    const read = mustReadFrame(
      '{"id":1,"method":"m","params":{"sessionId":"a"},"id":2,"params":{"sessionId":"b","sessionId":"c"}}',
    );
    expect(read.idText).toBe("2");
    expect(read.sessionId).toBe("c");
    expect(rewrite(read, { id: "9", sessionId: '"z"' })).toBe(
      '{"id":1,"method":"m","params":{"sessionId":"a"},"id":9,"params":{"sessionId":"b","sessionId":"z"}}',
    );
    const without = '{"method":"m","params":{"sessionId":"a"},"params":{}}';
    expect(mustReadFrame(without).spans.sessionId).toBeUndefined();
  });
});

describe("oneLine", () => {
  test("keeps the value of a message that was sent over several lines", () => {
    const raw = '{\r\n "method": "m",\n "params": {"text": "a\\nb"}\n}';
    expect(oneLine(raw)).not.toMatch(/[\r\n]/);
    expect(JSON.parse(oneLine(raw))).toEqual(JSON.parse(raw));
  });
});

/** JSON text with everything that parse-and-stringify would lose: spacing, number forms, escapes, duplicates. */
const space = fc.stringMatching(/^[ \t\n\r]{0,2}$/);
const stringText = fc.oneof(
  fc.string({ unit: "grapheme" }).map((s) => JSON.stringify(s)),
  fc.constantFrom(
    '"\\ud800"',
    '"\\u0000\\/\\""',
    '"\\\\"',
    '"\\\\\\""',
    '"sessionId"',
    '"\\u0069d"',
    '"}]{["',
    '"😀\\ud83d\\ude00"',
  ),
);
const scalarText = fc.oneof(
  stringText,
  fc.constantFrom(
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1.0",
    "1e3",
    "1E-2",
    "9007199254740993",
    "12345678901234567890",
    "-1.5e+10",
  ),
);
const keyText = fc.oneof(
  fc.constantFrom(
    '"id"',
    '"sessionId"',
    '"requestId"',
    '"params"',
    '"result"',
    '"method"',
    '"cwd"',
    '"path"',
    '"additionalDirectories"',
    '"\\u0069d"',
    '"session\\u0049d"',
    '"_meta"',
  ),
  stringText,
);
function list(item: fc.Arbitrary<string>, open: string, close: string) {
  return fc
    .tuple(fc.array(fc.tuple(space, item, space), { maxLength: 5 }), space)
    .map(([items, s]) => open + (items.length ? items.map((parts) => parts.join("")).join(",") : s) + close);
}
const { value: jsonText } = fc.letrec<{ value: string; object: string; array: string }>((tie) => ({
  value: fc.oneof({ depthSize: "small", withCrossShrink: true }, scalarText, tie("object"), tie("array")),
  object: list(
    fc.tuple(keyText, space, space, tie("value")).map(([k, a, b, v]) => `${k}${a}:${b}${v}`),
    "{",
    "}",
  ),
  array: list(tie("value"), "[", "]"),
}));
const memberText = fc.tuple(keyText, space, space, jsonText).map(([k, a, b, v]) => `${k}${a}:${b}${v}`);
const bodyText = list(memberText, "{", "}");
const messageText = fc
  .tuple(
    space,
    list(
      fc.oneof(
        memberText,
        jsonText.map((v) => `"id":${v}`),
        bodyText.map((v) => `"params":${v}`),
        bodyText.map((v) => `"result": ${v}`),
        stringText.map((v) => `"method" :${v}`),
      ),
      "{",
      "}",
    ),
    space,
  )
  .map((parts) => parts.join(""));

/** The value that parsing, rewriting and serialising gives. */
function rewriteValue(raw: string, texts: Rewrite): unknown {
  const message = JSON.parse(raw) as Record<string, unknown>;
  if ("id" in message && texts.id) message.id = JSON.parse(texts.id);
  const isCall = typeof message.method === "string";
  const body = (isCall ? message.params : message.result) as Record<string, unknown> | null | undefined;
  if (typeof body === "object" && body !== null && !Array.isArray(body)) {
    const places = ["sessionId", "requestId", "cwd", "path", "additionalDirectories"] as const;
    for (const place of isCall ? places : (["sessionId"] as const)) {
      const text = texts[place];
      if (Object.hasOwn(body, place) && text) body[place] = JSON.parse(text);
    }
  }
  return message;
}

describe("rewrite", () => {
  const texts = fc.record({
    id: scalarText,
    sessionId: stringText,
    requestId: scalarText,
    cwd: stringText,
    path: stringText,
    additionalDirectories: jsonText,
  });

  test("equals parse-and-rewrite for any message", () => {
    fc.assert(
      fc.property(messageText, texts, (raw, t) => {
        expect(JSON.parse(rewrite(mustReadFrame(raw), t))).toEqual(rewriteValue(raw, t));
      }),
      propertyRuns(3000),
    );
  });

  test("[I2] preserves every byte outside the replaced places", () => {
    fc.assert(
      fc.property(messageText, texts, (raw, t) => {
        const read = mustReadFrame(raw);
        const spans = Object.entries(read.spans)
          .flatMap(([place, span]) => (span ? [{ place: place as keyof Rewrite, ...span }] : []))
          .sort((a, b) => a.start - b.start);
        // Restoring the old texts in the replaced places must give the original, byte for byte.
        let out = rewrite(read, t);
        for (const span of spans) {
          const text = t[span.place];
          const at = span.start;
          expect(out.slice(at, at + text.length)).toBe(text);
          const old = raw.slice(span.start, span.end);
          out = out.slice(0, at) + old + out.slice(at + text.length);
        }
        expect(out).toBe(raw);
      }),
      propertyRuns(3000),
    );
  });

  test("handles the deepest nesting that is taken", () => {
    const deep = "[".repeat(MAX_DEPTH) + "]".repeat(MAX_DEPTH);
    const raw = `{"params":{"x":${deep},"sessionId":"a"},"method":"m","id":1}`;
    expect(rewrite(frame(raw), { id: "2", sessionId: '"b"' })).toBe(
      `{"params":{"x":${deep},"sessionId":"b"},"method":"m","id":2}`,
    );
  });
});
