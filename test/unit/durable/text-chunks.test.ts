import { describe, expect, it } from "vitest";
import { textChunks } from "../../../src/durable/text-chunks.ts";

describe("textChunks", () => {
  it("leaves a text that fits as one chunk", () => {
    expect(textChunks("abc", 3)).toEqual(["abc"]);
    expect(textChunks("", 3)).toEqual([""]);
  });

  it("cuts a longer text into chunks of the allowed length", () => {
    expect(textChunks("abcdefgh", 3)).toEqual(["abc", "def", "gh"]);
  });

  it("never cuts between the halves of a surrogate pair", () => {
    const chunks = textChunks("ab😀cd😀", 3);
    expect(chunks).toEqual(["ab", "😀c", "d😀"]);
    expect(chunks.join("")).toBe("ab😀cd😀");
  });
});
