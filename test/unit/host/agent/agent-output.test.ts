import { describe, expect, test } from "vitest";
import { readOutput } from "../../../../src/host/agent/agent-output.ts";

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

  test.each(["", "\r", " \t "])("%j is nothing", (line) => {
    expect(readOutput(line)).toBeNull();
  });

  test("is cut to 4 KiB if it is noise", () => {
    expect(readOutput("x".repeat(10_000))).toEqual({ noise: "x".repeat(4096) });
    expect(readOutput({ noise: "x".repeat(10_000) })).toEqual({ noise: "x".repeat(4096) });
  });
});
