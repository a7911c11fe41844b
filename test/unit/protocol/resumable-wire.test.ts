import { describe, expect, test } from "vitest";
import {
  type ClientHead,
  type GatewayHead,
  joinMessage,
  readClientHead,
  readGatewayHead,
  splitMessage,
} from "../../../src/protocol/resumable-wire.ts";

const CLIENT_HEADS: ClientHead[] = [
  { t: "hello", own: 0, cursors: { s: "1.2" } },
  { t: "lines", first: 1 },
  { t: "ack", chars: 10, own: 2 },
];
const GATEWAY_HEADS: GatewayHead[] = [
  { t: "welcome", connection: "c", received: 0 },
  { t: "ack", received: 4 },
  { t: "page", of: "", at: "3" },
];

describe("a message of the resumable wire", () => {
  test.each([...CLIENT_HEADS, ...GATEWAY_HEADS])("survives the wire with the head %j", (head) => {
    const lines = ['{"id":1}', '{"id":2}'];
    expect(splitMessage(joinMessage(head, lines))).toEqual({ head, lines });
  });

  test("has no head when the first line is not JSON", () => {
    expect(splitMessage("ping")).toEqual({ head: undefined, lines: [] });
  });
});

test.each(CLIENT_HEADS)("the gateway reads the client's head %j", (head) => {
  expect(readClientHead(head)).toEqual(head);
  expect(readGatewayHead(head)).toBeUndefined();
});

test.each(GATEWAY_HEADS)("a client reads the gateway's head %j", (head) => {
  expect(readGatewayHead(head)).toEqual(head);
});

test.each([
  undefined,
  null,
  "hello",
  {},
  { t: "hello", own: -1, cursors: {} },
  { t: "lines", first: 0 },
  { t: "ack", received: 1.5 },
  { t: "welcome", received: 1 },
])("%j is no head", (head) => {
  expect(readClientHead(head)).toBeUndefined();
  expect(readGatewayHead(head)).toBeUndefined();
});
