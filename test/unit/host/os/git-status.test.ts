import { describe, expect, test } from "vitest";
import { parseGitStatus } from "../../../../src/host/os/git-status.ts";

describe("a git status", () => {
  test("names the first changed files and counts all of them", () => {
    const state = parseGitStatus(Array.from({ length: 5000 }, (_, i) => `? f${i}\0`).join(""));
    expect(state.modifiedCount).toBe(5000);
    expect(state.modifiedFiles).toHaveLength(100);
  });

  test("has no head in an empty repository, and no branch with a detached head", () => {
    expect(parseGitStatus("# branch.oid (initial)\0# branch.head main\0")).toMatchObject({
      branch: "main",
      head: null,
      modifiedCount: 0,
    });
    expect(parseGitStatus("# branch.oid abc\0# branch.head (detached)\0")).toMatchObject({
      branch: null,
      head: "abc",
    });
  });

  test("counts a rename once, under its new name, and keeps spaces in paths", () => {
    const renamed = "2 R. N... 100644 100644 100644 a b R100 new name\0old name\0";
    expect(parseGitStatus(`${renamed}? other file\0`).modifiedFiles).toEqual(["new name", "other file"]);
  });
});
