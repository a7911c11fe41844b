import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { eventsDocument, FILE } from "../../docs/events-document.ts";

test("docs/events.md says what the catalogue of facts says", async () => {
  expect(await readFile(FILE, "utf8"), "run `npm run docs:events`").toBe(eventsDocument());
});
