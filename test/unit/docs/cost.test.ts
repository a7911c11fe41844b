import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { costDocument, FILE } from "../../docs/cost-document.ts";

test("docs/cost.md is what the measured counts and the prices say", async () => {
  expect(await readFile(FILE, "utf8"), "run `npm run docs:cost`").toBe(costDocument());
});
