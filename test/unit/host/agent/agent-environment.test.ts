import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { AgentEnvironment } from "../../../../src/host/agent/agent-environment.ts";
import type { OfferedAgent } from "../../../../src/host/agent/offered-agents.ts";
import { temporaryDirectory } from "../../../fixtures/temporary-directory.ts";

const agent = (id: string, more: Partial<OfferedAgent> = {}): OfferedAgent => ({
  id,
  name: id,
  command: [id],
  default: false,
  ...more,
});

describe("the environment of an agent", () => {
  const claude = agent("claude", { requires: [["ANTHROPIC_API_KEY"]], accepts: ["ANTHROPIC_MODEL"] });
  const codex = agent("codex", { requires: ["OPENAI_API_KEY"], env: { MODE: "acp" } });
  const custom = agent("custom", { inherits: true });
  const host = {
    PATH: "/bin",
    HOME: "/home/me",
    LC_ALL: "C",
    ACP_EDGE_HOST_TOKEN: "host-token",
    ANTHROPIC_API_KEY: "anthropic-key",
    ANTHROPIC_MODEL: "model",
    OPENAI_API_KEY: "openai-key",
    EDITOR: "vi",
  };
  const environment = () => new AgentEnvironment(host, [claude, codex, custom]);
  const names = (variables: Record<string, string>) => Object.keys(variables).sort();

  test("has the plain variables and those that its entry declares", () => {
    const env = environment();
    expect(names(env.ofAgent(claude))).toEqual([
      "ANTHROPIC_API_KEY",
      "ANTHROPIC_MODEL",
      "HOME",
      "LC_ALL",
      "PATH",
    ]);
    expect(names(env.ofAgent(codex))).toEqual(["HOME", "LC_ALL", "MODE", "OPENAI_API_KEY", "PATH"]);
    expect(env.ofAgent(codex).PATH).toMatch(/:\/bin$/);
  });

  test("is, for a custom command, the environment of the host without the variables that configure the host", () => {
    const given = names(environment().ofAgent(custom));
    expect(given).toContain("OPENAI_API_KEY");
    expect(given).toContain("EDITOR");
    expect(given).not.toContain("ACP_EDGE_HOST_TOKEN");
  });

  test("has the variables that every agent gets, if the host has them", () => {
    const env = new AgentEnvironment(host, [claude], ["EDITOR", "NOWHERE"]);
    expect(env.ofAgent(claude).EDITOR).toBe("vi");
    expect(names(env.ofTerminals(claude))).toEqual(["EDITOR", "HOME", "LC_ALL", "PATH"]);
  });

  test("prefers the workspace's secrets to the host's variables, if the agent declares them", () => {
    const env = environment();
    // The agent that inherits everything gets every secret.
    expect(env.setSecrets({ ANTHROPIC_API_KEY: "of-the-workspace" })).toEqual([claude, custom]);
    expect(env.ofAgent(custom).ANTHROPIC_API_KEY).toBe("of-the-workspace");
    expect(env.ofAgent(claude).ANTHROPIC_API_KEY).toBe("of-the-workspace");
    expect(JSON.stringify(env.ofAgent(codex))).not.toContain("of-the-workspace");
    expect(JSON.stringify(env.ofTerminals(claude))).not.toContain("of-the-workspace");
    expect(env.setSecrets({ ANTHROPIC_API_KEY: "of-the-workspace", OTHER: "x" })).toEqual([custom]);
    expect(env.setSecrets({})).toEqual([claude, custom]);
    expect(env.ofAgent(claude).ANTHROPIC_API_KEY).toBe("anthropic-key");
  });

  test("contributes its secrets, and only these, to redaction", () => {
    const env = environment();
    env.setSecrets({ STORED: "stored-value" });
    expect(env.redact("anthropic-key openai-key host-token stored-value /home/me model")).toBe(
      "[redacted:ANTHROPIC_API_KEY] [redacted:OPENAI_API_KEY] [redacted:ACP_EDGE_HOST_TOKEN] [redacted:STORED] /home/me model",
    );
  });
});

describe("an agent is", () => {
  const base = { id: "a", name: "A", default: false, command: ["a"] };
  const unavailableReason = (env: NodeJS.ProcessEnv, more: object) =>
    new AgentEnvironment(env, []).unavailableReason({ ...base, ...more });

  test("available if one variable or file of each group exists", () => {
    const home = temporaryDirectory();
    writeFileSync(join(home, "login.json"), "{}");
    expect(unavailableReason({}, {})).toBeUndefined();
    expect(unavailableReason({ B: "1", C: "1" }, { requires: [["A", "B"], "C"] })).toBeUndefined();
    expect(unavailableReason({ HOME: home }, { requires: [["A", "~/login.json"]] })).toBeUndefined();
  });

  test("unavailable for the variables or the installation that it lacks", () => {
    const requires = [["A_KEY", "B_KEY", "~/.c/login"], "D"];
    expect(unavailableReason({ A_KEY: "" }, { requires })).toBe("needs A_KEY, B_KEY or ~/.c/login; needs D");
    expect(unavailableReason({ D: "1", A_KEY: "1" }, { requires, missing: "not installed: x" })).toBe(
      "not installed: x",
    );
  });
});
