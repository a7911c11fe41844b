import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Machine } from "../../../src/host/agent/installation.ts";
import { offeredAgents } from "../../../src/host/agent/offered-agents.ts";
import { readCatalogue } from "../../../src/host/catalogue.ts";
import { catalogueFile, REGISTERED } from "./agent/registry-entry.ts";

const BARE: Machine = { path: [], modules: [], download: false };

describe("the catalogue", () => {
  test("lists common agents, each with a way to install it", () => {
    const ids = readCatalogue().map(({ id }) => id);
    expect(ids).toEqual([
      "claude-acp",
      "codex-acp",
      "opencode",
      "gemini",
      "qwen-code",
      "github-copilot-cli",
      "pi-acp",
      "demo",
    ]);
    for (const agent of offeredAgents({}, BARE)) {
      if (agent.id === "demo") expect(agent.command).toHaveLength(2);
      else expect(agent.missing).toMatch(/^not installed: npm install -g \S+, or let the host download it/);
    }
  });

  test.each([
    ["one entry", REGISTERED],
    ["a list", [REGISTERED]],
    ["a whole registry", { version: "1.0.0", agents: [REGISTERED], extensions: [] }],
  ])("accepts entries of the public registry unchanged: %s", (_, content) => {
    expect(readCatalogue(catalogueFile(content)).at(-1)).toMatchObject({
      id: "some-agent",
      version: "1.2.3",
    });
  });

  test("is overridden by a file that names only the differences", () => {
    const file = catalogueFile({ id: "gemini", name: "Gemini", command: ["./wrapped", "--acp"] });
    const gemini = readCatalogue(file).find(({ id }) => id === "gemini");
    expect(gemini).toMatchObject({
      name: "Gemini",
      command: [join(file, "../wrapped"), "--acp"],
      requires: [expect.arrayContaining(["GEMINI_API_KEY"])],
    });
  });

  test.each([
    [{ id: "x", name: "X" }, "neither a distribution nor a command"],
    [{ id: "X Y", name: "X", command: ["x"] }, "lower case"],
    [{ id: "x", name: "X", command: ["x"], requires: ["NOT A NAME"] }, "requires"],
    ["nonsense", "expected object"],
  ])("names the mistake in a file: %j", (content, message) => {
    expect(() => readCatalogue(catalogueFile(content))).toThrow(message);
  });

  test("names a file that does not exist", () => {
    expect(() => readCatalogue("/no/such/file")).toThrow("cannot be read");
  });
});
