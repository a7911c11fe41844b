import { describe, expect, test } from "vitest";
import { initializeResult } from "../../../../src/connection/methods/initialize.ts";

describe("the answer to initialize", () => {
  test("shows what works for every agent", () => {
    expect(initializeResult(null).agentCapabilities).toEqual({
      loadSession: true,
      sessionCapabilities: {
        ...{ list: {}, resume: {}, close: {}, delete: {}, fork: {}, title: {}, archive: {}, status: {} },
      },
    });
  });

  test("shows what the agent has, without MCP over ACP", () => {
    const agentCapabilities = {
      providers: {},
      auth: { status: {} },
      mcpCapabilities: { http: true, acp: true },
      sessionCapabilities: { systemPrompt: {} },
    };
    expect(initializeResult({ agentCapabilities }).agentCapabilities).toMatchObject({
      providers: {},
      auth: { status: {} },
      mcpCapabilities: { http: true },
      sessionCapabilities: { systemPrompt: {}, title: {} },
    });
    const shown = initializeResult({ agentCapabilities }).agentCapabilities;
    expect(JSON.stringify(shown)).not.toContain("acp");
  });

  test("the gateway names itself for an agent that does not, and keeps the name of one that does", () => {
    expect(initializeResult(null).agentInfo).toMatchObject({ name: "acp-edge" });
    expect(initializeResult({ protocolVersion: 1 }).agentInfo).toMatchObject({ name: "acp-edge" });
    expect(initializeResult({ agentInfo: null }).agentInfo).toMatchObject({ name: "acp-edge" });
    expect(initializeResult({ agentInfo: { name: "codex", version: "1" } }).agentInfo).toEqual({
      name: "codex",
      version: "1",
    });
  });

  test("shows no login in a terminal, and no logins where the agent has no list of them", () => {
    const key = { id: "key", name: "Key" };
    const variable = { id: "variable", name: "Variable", type: "env_var" };
    const authMethods = [key, { id: "tty", name: "Terminal", type: "terminal" }, variable];
    expect(initializeResult({ authMethods }).authMethods).toEqual([key, variable]);
    expect(initializeResult({ authMethods: "key" }).authMethods).toEqual([]);
    expect(initializeResult(null).authMethods).toEqual([]);
  });

  test("says for how long a transport resumes streams", () => {
    expect(initializeResult(null, 300)).toMatchObject({
      agentCapabilities: { transport: { resumable: { retentionSeconds: 300 } } },
    });
    expect(initializeResult(null).agentCapabilities).not.toHaveProperty("transport");
  });
});
