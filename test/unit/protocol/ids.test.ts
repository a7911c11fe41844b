import { expect, test } from "vitest";
import { clientRequestId, isUuid, parseClientRequestId } from "../../../src/protocol/ids.ts";

const SESSION = "0f0e0d0c-0b0a-4908-8706-050403020100";

test("a client request id names the session and the place of the request in its log", () => {
  expect(parseClientRequestId(clientRequestId(SESSION, 42))).toEqual({ sessionId: SESSION, seq: 42 });
});

test.each([
  undefined,
  null,
  7,
  "",
  "7",
  `${SESSION}:`,
  `${SESSION}:x`,
  `${SESSION}:1234567890123456`,
  `x:${SESSION}:1`,
])("%j is no client request id", (id) => {
  expect(parseClientRequestId(id)).toBeUndefined();
});

test("isUuid accepts the lower-case form only", () => {
  expect(isUuid(SESSION)).toBe(true);
  for (const id of ["", SESSION.toUpperCase(), `${SESSION}0`, SESSION.replaceAll("-", "")])
    expect(isUuid(id)).toBe(false);
});
