import { describe, expect, test } from "vitest";
import { sourceFiles, sourceText } from "../fixtures/source-files.ts";

/** The invariants that ARCHITECTURE.md numbers, as in `I6`. */
function invariants(): Set<string> {
  return new Set(sourceText("ARCHITECTURE.md").match(/(?<=\*\*)I\d+\b/g));
}

/** The invariants that titles cite, as in `[I6]`, with the number of titles. */
function citations(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const file of sourceFiles("test")) {
    for (const [title] of sourceText(file).matchAll(/^\s*(?:test|\]\)|\))[^\n]*["`]\[I\d+\][^\n]*$/gm))
      for (const [, id = ""] of title.matchAll(/\[(I\d+)\]/g)) counts.set(id, (counts.get(id) ?? 0) + 1);
  }
  return counts;
}

describe("the invariants of the architecture", () => {
  test.each(Array.from({ length: 10 }, (_, i) => `I${i + 1}`))("%s is proved by two tests or more", (id) => {
    expect(invariants()).toContain(id);
    expect(citations().get(id) ?? 0).toBeGreaterThanOrEqual(2);
  });

  test("are the only ids that titles cite", () => {
    const known = invariants();
    expect([...citations().keys()].filter((id) => !known.has(id))).toEqual([]);
  });
});
