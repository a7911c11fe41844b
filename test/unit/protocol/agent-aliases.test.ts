import { expect, test } from "vitest";
import { readCatalogue } from "../../../src/host/catalogue.ts";
import { agentNamed, unavailableReason } from "../../../src/protocol/agent-availability.ts";

const agent = (id: string, ...aliases: string[]) => ({ id, aliases, available: true, reason: null });

test("an agent is found by its id first, then by an alias", () => {
  const agents = [agent("claude-acp", "claude-code", "codex"), agent("codex")];
  expect(agentNamed(agents, "claude-code")?.id).toBe("claude-acp");
  expect(agentNamed(agents, "codex")?.id).toBe("codex");
  expect(agentNamed(agents, "other")).toBeUndefined();
  expect(unavailableReason(agents, "claude-code")).toBeUndefined();
});

test("no alias of the catalogue is another entry's name", () => {
  const catalogue = readCatalogue();
  const names = catalogue.flatMap(({ id, aliases = [] }) => [id, ...aliases]);
  expect(new Set(names).size).toBe(names.length);
  expect(agentNamed(catalogue, "claude-code")?.name).toBe("Claude Code");
});
