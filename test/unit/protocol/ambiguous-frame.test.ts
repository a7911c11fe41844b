import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isFault, mustReadFrame, readFrame } from "../../../src/protocol/frame.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

const SERVERS = '"params":{"sessionId":"s","mcpServers":[{"command":"sh"}]}';

describe("a message that two parsers read differently", () => {
  test.each([
    `{"id":1,"method":"_x/y","Method":"session/new",${SERVERS}}`,
    `{"id":1,"method":"session/new","method":"_x/y",${SERVERS}}`,
    `{"id":1,"method":"session/new","m\\u0065thod":"_x/y",${SERVERS}}`,
    `{"id":1,"method":"_x/y","\\u004dethod":"session/new",${SERVERS}}`,
    '{"id":1,"ID":2,"method":"m"}',
    '{"id":1,"method":"m","params":{},"param\u017f":{}}',
    '{"id":1,"method":"m","param\\u017f":{}}',
    '{"JSONRPC":"2.0","id":1,"method":"m"}',
    '{"id":1,"result":{},"Error":{}}',
    '{"id":1,"result":{},"result":{}}',
    '{"id":1,"method":"m","x":1,"x":1}',
    '{"id":1,"method":"m","__proto__":1,"__proto__":1}',
    '{"id":1,"method":"m","params":{"sessionId":"a","sessionId":"b"}}',
    '{"id":1,"method":"m","params":{"sessionId":"a","SessionID":"b"}}',
    '{"id":1,"method":"m","params":{"sessionid":"a"}}',
    '{"id":1,"method":"m","params":{"\\u017fe\\u017fsionId":"a"}}',
    '{"id":1,"method":"m","params":{"path":"/etc/shadow","path":"/workspace/a"}}',
    '{"id":1,"result":{"sessionId":"a","sessionId":"b"}}',
    '{"id":1,"method":"m","params":{"_meta":{"k":1,"k":2}}}',
    '{"id":1,"method":"m","params":{"x":[{"sessionId":"a","sessionId":"b"}]}}',
  ])("is none: %s", (raw) => {
    expect(readFrame(raw)).toMatchObject({ fault: "ambiguous", frame: { raw } });
    // An earlier build may have logged such a message.
    expect(mustReadFrame(raw)).toMatchObject({ raw });
  });

  test.each([
    '{"id":1,"method":"m","meth":"x","methods":[],"_method":1}',
    '{"id":1,"method":"m","params":{"Path":"a","path":"b","_meta":{"k":1,"K":2}}}',
    '{"id":1,"method":"m","params":{"session_id":"a","sessionIds":[],"sessionId":"s"}}',
    '{"method":"m","params":{"x":{"sessionId":"a","sessionId":"b"}}}',
    '{"id":1,"method":"m","params":[{"a":1},{"a":1}]}',
    '{"id":1,"result":{"__proto__":1,"toString":2}}',
    '{"id":1,"error":{"code":1,"message":"x"}}',
  ])("is not meant by other likenesses: %s", (raw) => {
    expect(isFault(readFrame(raw))).toBe(false);
  });
});

const MEMBERS = ["jsonrpc", "id", "method", "params", "result", "error"];
const fold = (name: string) => name.toUpperCase().toLowerCase();
const isVariant = (name: string) => MEMBERS.includes(fold(name)) && !MEMBERS.includes(name);
const isOther = (name: string) => !isVariant(name) && fold(name) !== "sessionid";

const scalar = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null));
const name = fc.oneof(
  fc.constantFrom("cwd", "path", "update", "_meta", "__proto__", "constructor"),
  fc.string(),
);
type Member = [string, unknown];
const body = fc.uniqueArray(fc.tuple(name.filter(isOther), fc.jsonValue()), {
  selector: ([key]) => key,
  maxLength: 6,
});
const envelope = fc.record({ id: scalar, method: fc.string(), params: body, more: body });

/** The text of an object with these members, in this order, with any repetition. */
const textOf = (members: Member[]) =>
  `{${members.map(([key, value]) => `${keyText(key)}:${JSON.stringify(value)}`).join(",")}}`;
/** Every other key is written with escapes, which a comparison of texts would not see through. */
const keyText = (key: string) =>
  key.length % 2 === 0
    ? JSON.stringify(key)
    : `"${[...Array(key.length).keys()].map((i) => `\\u${key.charCodeAt(i).toString(16).padStart(4, "0")}`).join("")}"`;

type Envelope = { id: unknown; method: string; params: Member[]; more: Member[] };
function messageText({ id, method, params, more }: Envelope, extra: Member[] = [], inParams: Member[] = []) {
  const members: string[] = [
    textOf([["id", id]]),
    textOf([["method", method]]),
    `{"params":${textOf([...params, ["sessionId", "s"], ...inParams])}}`,
    textOf(more.filter(([key]) => !MEMBERS.includes(key))),
    textOf(extra),
  ];
  return `{${members
    .map((text) => text.slice(1, -1))
    .filter((text) => text !== "")
    .join(",")}}`;
}
const otherCase = (key: string, flips: boolean[]) =>
  [...key].map((c, i) => (flips[i % flips.length] ? c.toUpperCase() : c)).join("");
const flips = fc.array(fc.boolean(), { minLength: 1, maxLength: 9 });

describe("any message", () => {
  test("is read when every member has a name of its own", () => {
    fc.assert(
      fc.property(envelope, (message) => {
        expect(isFault(readFrame(messageText(message)))).toBe(false);
      }),
      propertyRuns(1000),
    );
  });

  test("is refused with a member of the message twice, or in any case", () => {
    fc.assert(
      fc.property(
        envelope,
        fc.constantFrom("id", "method", "params"),
        flips,
        scalar,
        (message, key, f, v) => {
          const raw = messageText(message, [[otherCase(key, f), v]]);
          expect(readFrame(raw)).toMatchObject({ fault: "ambiguous" });
        },
      ),
      propertyRuns(1000),
    );
  });

  test("is refused with the session's id twice, in any case, or with any parameter twice", () => {
    fc.assert(
      fc.property(envelope, flips, scalar, fc.nat(), (message, f, value, pick) => {
        const again: Member = [otherCase("sessionId", f), value];
        expect(readFrame(messageText(message, [], [again]))).toMatchObject({ fault: "ambiguous" });
        const some = message.params[pick % Math.max(1, message.params.length)];
        if (some) expect(readFrame(messageText(message, [], [some]))).toMatchObject({ fault: "ambiguous" });
      }),
      propertyRuns(1000),
    );
  });
});
