import { expect, test } from "vitest";
import { initializeResult } from "../../../../src/connection/methods/initialize.ts";

test("a transport that resumes streams says for how long", () => {
  expect(initializeResult(null, 300)).toMatchObject({
    agentCapabilities: { transport: { resumable: { retentionSeconds: 300 } } },
  });
  expect(initializeResult(null).agentCapabilities).not.toHaveProperty("transport");
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
