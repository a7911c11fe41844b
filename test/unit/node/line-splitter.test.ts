import fc from "fast-check";
import { expect, test } from "vitest";
import { type Line, LineSplitter } from "../../../src/node/line-splitter.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";

function split(chunks: Buffer[], maxBytes = DEFAULT_LIMITS.frameChars): Line[] {
  const splitter = new LineSplitter(maxBytes);
  return [...chunks.flatMap((chunk) => splitter.push(chunk)), ...splitter.end()];
}

function cut(bytes: Buffer, places: number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, n) => bytes.subarray(at[n], end));
}

test("lines do not depend on chunk boundaries", () => {
  const line = fc.string({ unit: "grapheme" }).map((text) => text.replaceAll("\n", ""));
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat()), (lines, places) => {
      const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(""));
      expect(split(cut(bytes, places))).toEqual(lines);
    }),
  );
});

test("a character may be split over two chunks", () => {
  const bytes = Buffer.from("é🙂\n");
  for (let at = 0; at <= bytes.length; at++) {
    expect(split([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(["é🙂"]);
  }
});

test("the last line needs no line break", () => {
  expect(split([Buffer.from("a\nb")])).toEqual(["a", "b"]);
});

test("a line that is not UTF-8 is noise, its neighbours are not", () => {
  const bytes = Buffer.concat([
    Buffer.from("before\nbad "),
    Buffer.from([0xff, 0xc3]),
    Buffer.from("\nafter é\n"),
  ]);
  fc.assert(
    fc.property(fc.array(fc.nat()), (places) => {
      expect(split(cut(bytes, places))).toEqual(["before", { noise: "bad \ufffd\ufffd" }, "after é"]);
    }),
  );
});

test("a line over the limit is reported with its size, however it is split", () => {
  const bytes = Buffer.from(`ok\n${"x".repeat(11)}\n${"y".repeat(10)}\n`);
  const tooLong = {
    noise: "(a line of 11 bytes was dropped: too long for a frame)",
    beginning: "x".repeat(11),
    end: "x".repeat(11),
  };
  fc.assert(
    fc.property(fc.array(fc.nat()), (places) => {
      expect(split(cut(bytes, places), 10)).toEqual(["ok", tooLong, "y".repeat(10)]);
    }),
  );
});

test("of a line over the limit the beginning and the end are known, however it is split", () => {
  const bytes = Buffer.from(`${"a".repeat(1000)}${"b".repeat(3000)}${"c".repeat(1000)}\nnext\n`);
  const beginning = "a".repeat(1000) + "b".repeat(24);
  const end = "b".repeat(24) + "c".repeat(1000);
  fc.assert(
    fc.property(fc.array(fc.nat()), (places) => {
      const [line, next] = split(cut(bytes, places), 2000);
      expect(line).toMatchObject({ beginning, end });
      expect(next).toBe("next");
    }),
  );
});

test("a byte order mark is kept", () => {
  expect(split([Buffer.from("\ufeffa\n\ufeffb\n")])).toEqual(["\ufeffa", "\ufeffb"]);
});

test("the end of a line is known when the limit is lowered within the line", () => {
  const splitter = new LineSplitter(100);
  splitter.push(Buffer.from("first "));
  splitter.limit(4);
  expect(splitter.push(Buffer.from("\n"))).toMatchObject([{ beginning: "first ", end: "first " }]);
  expect(splitter.push(Buffer.from("next\n"))).toEqual(["next"]);
});
