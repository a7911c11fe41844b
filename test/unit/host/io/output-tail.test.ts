import { describe, expect, test } from "vitest";
import { OutputTail } from "../../../../src/host/io/output-tail.ts";

describe("the tail of an output", () => {
  test("begins and ends with whole characters", () => {
    const bytes = Buffer.from("aé🙂ü");
    for (let limit = 0; limit <= bytes.length; limit++) {
      const tail = new OutputTail(limit);
      for (const byte of bytes) tail.push(Buffer.from([byte]));
      const { output, truncated } = tail.read();
      expect("aé🙂ü".endsWith(output)).toBe(true);
      expect(Buffer.byteLength(output)).toBeGreaterThan(limit - 4);
      expect(truncated).toBe(limit < bytes.length);
    }
    const tail = new OutputTail(100);
    tail.push(bytes.subarray(0, 5));
    expect(tail.read()).toEqual({ output: "aé", truncated: false });
  });
});
