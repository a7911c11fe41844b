import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  childSessionId,
  parseChildSessionId,
  translateNamedSessions,
} from "../../../src/protocol/child-session-id.ts";

const PARENT = "0f8fad5b-d9cb-469f-a165-70867728950e";

describe("[I5] the id of a sub-agent's session", () => {
  test("leads back to its session and to the agent's id, and is fit for a header", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", minLength: 1, maxLength: 50 }), (agentId) => {
        const id = childSessionId(PARENT, agentId);
        expect(id).toMatch(/^[\x21-\x7e]+$/);
        expect(parseChildSessionId(id ?? "")).toEqual({ sessionId: PARENT, agentId });
      }),
    );
  });

  test.each([
    PARENT,
    `${PARENT}/`,
    `${PARENT}/%`,
    `${PARENT}/a b`,
    `${PARENT}/%61`,
    "x/y",
    `${PARENT}:7`,
    "",
  ])("is not %s", (id) => {
    expect(parseChildSessionId(id)).toBeUndefined();
  });

  test.each(["", "\ud800", "x".repeat(1000), "ü".repeat(200)])("is not made of every text", (agentId) => {
    expect(childSessionId(PARENT, agentId)).toBeUndefined();
  });
});

test("sessions that an update names are translated, and nothing else is touched", () => {
  const raw = `{"jsonrpc":"2.0","params":{"sessionId":"a","update":{"senderSessionId": "a", "content":{"sessionId":"a"},"recipientSessionId":"b","sessionId":null, "n":1.0}}}`;
  expect(translateNamedSessions(raw, (id) => (id === "a" ? "A" : undefined))).toBe(
    `{"jsonrpc":"2.0","params":{"sessionId":"a","update":{"senderSessionId": "A", "content":{"sessionId":"a"},"recipientSessionId":null,"sessionId":null, "n":1.0}}}`,
  );
});
