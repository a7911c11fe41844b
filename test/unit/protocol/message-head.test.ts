import { describe, expect, test } from "vitest";
import { readHead } from "../../../src/protocol/message-head.ts";

const LONG = `{"a":1,"id":5,"text":"${"x".repeat(5000)},\\"id\\":6}"}`;

describe("the outline of a message", () => {
  test.each([
    `{"jsonrpc":"2.0","id":7,"result":${LONG}}`,
    `{"jsonrpc":"2.0","result":${LONG},"id":7}`,
    `{"result":${LONG},"jsonrpc":"2.0","id":7}`,
    `{"result":${LONG},"id":7,"jsonrpc":"2.0"}`,
    ` { "error" : ${LONG} , "id" : 7 } \r`,
    `{"id":7,"error":${LONG},"jsonrpc":"2.0"}`,
  ])("tells an answer (%#)", (text) => {
    expect(readHead(text)).toEqual({ kind: "response", idText: "7" });
    expect(readHead(text.slice(0, 1024), text.slice(-1024))).toEqual({ kind: "response", idText: "7" });
  });

  test.each([
    `{"jsonrpc":"2.0","id":"a\\"b","method":"m","params":${LONG}}`,
    `{"jsonrpc":"2.0","method":"m","id":"a\\"b","params":${LONG}}`,
    `{"jsonrpc":"2.0","method":"m","params":${LONG},"id":"a\\"b"}`,
    `{"params":${LONG},"id":"a\\"b","method":"m"}`,
    `{"id":"a\\"b","params":${LONG},"method":"m"}`,
    '{"jsonrpc":"2.0","method":"m","id":"a\\"b"}',
  ])("tells a request (%#)", (text) => {
    expect(readHead(text)).toEqual({ kind: "request", idText: '"a\\"b"' });
    expect(readHead(text.slice(0, 1024), text.slice(-1024))).toEqual({
      kind: "request",
      idText: '"a\\"b"',
    });
  });

  test.each([
    `{"jsonrpc":"2.0","method":"m","params":${LONG}}`,
    '{"jsonrpc":"2.0","method":"m","params":{"a":1,"id":5}}',
    '{"jsonrpc":"2.0","method":"m","params":["a",{"b":1,"id":5}]}',
    '{"jsonrpc":"2.0","method":"m","params":{"text":",\\"id\\":5}"}}',
    `{"jsonrpc":"2.0","result":${LONG}}`,
    '{"jsonrpc":"2.0","id":7}',
    "",
    "text",
  ])("tells nothing where nobody waits, or nobody can tell (%#)", (text) => {
    expect(readHead(text)).toBeUndefined();
  });
});
