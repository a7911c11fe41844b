import { describe, expect, test } from "vitest";
import { availableIds, unavailableReason } from "../../../src/protocol/agent-availability.ts";

const AGENTS = [
  { id: "demo", available: true, reason: null },
  { id: "claude", available: false, reason: "ANTHROPIC_API_KEY is not set" },
  { id: "codex", available: false, reason: null },
];

describe("the availability of an agent", () => {
  test("lists the agents that a host can start", () => {
    expect(availableIds(AGENTS)).toEqual(["demo"]);
    expect(unavailableReason(AGENTS, "demo")).toBeUndefined();
  });

  test.each([
    ["claude", 'Agent "claude" is not available (ANTHROPIC_API_KEY is not set); this workspace has: demo'],
    ["codex", 'Agent "codex" is not available (no host has it); this workspace has: demo'],
    ["other", 'Unknown agent "other"; this workspace has: demo'],
  ])("names the reason why %s cannot be used", (id, reason) => {
    expect(unavailableReason(AGENTS, id)).toBe(reason);
  });

  test("is open before the first host has connected", () => {
    expect(unavailableReason([], "demo")).toBeUndefined();
  });

  test("says so when the workspace has no available agent", () => {
    expect(unavailableReason(AGENTS.slice(1), "other")).toBe(
      'Unknown agent "other"; this workspace has: none',
    );
  });
});
