import { expect, test } from "vitest";
import { initializeResult } from "../../../../src/connection/methods/initialize.ts";

test("the gateway names itself for an agent that does not, and keeps the name of one that does", () => {
  expect(initializeResult(null).agentInfo).toMatchObject({ name: "acp-edge" });
  expect(initializeResult({ protocolVersion: 1 }).agentInfo).toMatchObject({ name: "acp-edge" });
  expect(initializeResult({ agentInfo: null }).agentInfo).toMatchObject({ name: "acp-edge" });
  expect(initializeResult({ agentInfo: { name: "codex", version: "1" } }).agentInfo).toEqual({
    name: "codex",
    version: "1",
  });
});
