import { describe, expect, test } from "vitest";
import { readOutput } from "../../../../src/host/agent/agent-output.ts";
import { LineSplitter } from "../../../../src/node/line-splitter.ts";

describe("a line on stdout", () => {
  test.each(['{"id":1}', '{"error":{}}', "{}", '{"n":12345678901234567890} '])(
    "%s is a frame, verbatim",
    (line) => {
      expect(readOutput(line)).toEqual({ frame: line, message: JSON.parse(line) });
    },
  );

  test("loses its carriage return and its indentation", () => {
    expect(readOutput('\t {"a":1}\r')).toMatchObject({ frame: '{"a":1}' });
  });

  test.each(["[]", "1", '"text"', "null", "{", '{"a":1}{"b":2}', "Debugger attached.", "\ufeff{}"])(
    "%s is noise",
    (line) => {
      expect(readOutput(line)).toEqual({ noise: line });
    },
  );

  test("that is too long for a frame is dropped if it begins a message, and noise otherwise", () => {
    const noise = "(too long)";
    const update = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s';
    expect(readOutput({ noise, beginning: update })).toEqual({ dropped: noise });
    expect(readOutput({ noise, beginning: "Debugger attached." })).toEqual({ noise });
  });

  test.each(["", "\r", " \t "])("%j is nothing", (line) => {
    expect(readOutput(line)).toBeNull();
  });
});

describe("a message that no frame can carry", () => {
  function output(text: string | Buffer) {
    const [line] = new LineSplitter(200).push(Buffer.concat([Buffer.from(text), Buffer.from("\n")]));
    return line === undefined ? null : readOutput(line);
  }

  const long = "x".repeat(300);
  const latin = (text: string) => Buffer.from(text, "latin1");
  const TEXTS = [
    ["too long", (id: string, body: string) => `{"jsonrpc":"2.0",${id},${body.replace("?", long)}}`],
    ["too long, with its id last", (id: string, body: string) => `{${body.replace("?", long)},${id}}`],
    ["not UTF-8", (id: string, body: string) => latin(`{"jsonrpc":"2.0",${id},${body.replace("?", "é")}}`)],
    ["not UTF-8, with its id last", (id: string, body: string) => latin(`{${body.replace("?", "é")},${id}}`)],
    ["not JSON", (id: string, body: string) => `{"jsonrpc":"2.0",${id},${body.replace('"?"', "NaN")}}`],
  ] as const;

  test.each(TEXTS)("is an error for the asker when it is an answer (%s)", (_, text) => {
    expect(output(text('"id":7', '"result":{"x":"?"}'))).toMatchObject({
      message: { id: 7, error: { code: -32603, data: { detailCode: "unreadable_answer" } } },
    });
  });

  test.each(TEXTS)("is an error for the agent when it is a request (%s)", (_, text) => {
    const read = output(text('"id":"q"', '"method":"fs/read_text_file","params":{"path":"?"}'));
    if (!read || !("refusal" in read)) throw new Error("The request is not refused");
    expect(JSON.parse(read.refusal as string)).toMatchObject({ id: "q", error: { code: -32600 } });
  });

  test("is noise when nobody waits for it", () => {
    const read = output(latin('{"jsonrpc":"2.0","method":"session/update","params":{"x":"é"}}'));
    expect(Object.keys(read ?? {})).toEqual(["noise"]);
  });

  test("is noise when it is clipped, as in a trace", () => {
    const line = '{"jsonrpc":"2.0","id":7,"result":{"x":"…';
    expect(readOutput(line)).toEqual({ noise: line });
  });
});
