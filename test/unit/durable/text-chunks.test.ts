import { describe, expect, test } from "vitest";
import { textChunks } from "../../../src/durable/text-chunks.ts";

describe("textChunks", () => {
  test("leaves a text that fits as one chunk", () => {
    expect(textChunks("abc", 3)).toEqual(["abc"]);
    expect(textChunks("", 3)).toEqual([""]);
  });

  test("cuts a longer text into chunks of the allowed length", () => {
    expect(textChunks("abcdefgh", 3)).toEqual(["abc", "def", "gh"]);
  });

  test("never cuts between the halves of a surrogate pair", () => {
    const chunks = textChunks("ab😀cd😀", 3);
    expect(chunks).toEqual(["ab", "😀c", "d😀"]);
    expect(chunks.join("")).toBe("ab😀cd😀");
  });
});
