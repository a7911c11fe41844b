import { describe, expect, test } from "vitest";
import { EXIT } from "../../../../src/cli/cli-error.ts";
import { checkAgent, checkHost } from "../../../../src/cli/command/doctor-workspace.ts";
import type { WorkspaceView } from "../../../../src/protocol/rest.ts";

const TARGET = { url: "https://acp.example.com" };
const AGENT: WorkspaceView["agents"][number] = {
  id: "demo",
  name: "Demo",
  default: true,
  available: true,
  reason: null,
  description: null,
  version: null,
  ready: true,
  error: null,
};
const HOST = { name: "laptop", state: "connected" as const, root: "/work" };
const CONTAINER = {
  state: "stopped",
  since: "2026-01-01T00:00:00Z",
  failures: 0,
  reason: null,
  retryAt: null,
  tokens: [],
};

describe("the host of a workspace", () => {
  test("is fine while one is connected", () => {
    const check = checkHost({ hosts: [HOST], containerState: null }, TARGET, "w");
    expect(check).toEqual({ status: "ok", detail: "laptop serves /work" });
  });

  test("is missing if all hosts are gone, and the hint tells how to start one", () => {
    const check = checkHost({ hosts: [{ ...HOST, state: "gone" }], containerState: null }, TARGET, "w");
    expect(check).toMatchObject({
      status: "failed",
      code: EXIT.error,
      hint: expect.stringContaining("acp-edge host --gateway https://acp.example.com --workspace w"),
    });
  });

  test("may be a container, unless it fails to start", () => {
    expect(checkHost({ hosts: [], containerState: CONTAINER }, TARGET, "w").status).toBe("ok");
    const failing = { ...CONTAINER, failures: 2, reason: "no image" };
    expect(checkHost({ hosts: [], containerState: failing }, TARGET, "w")).toMatchObject({
      status: "failed",
      detail: "the container does not start: no image",
    });
  });
});

describe("the agent of a workspace", () => {
  const check = (agents: WorkspaceView["agents"], agentId?: string) =>
    checkAgent({ agents, containerState: null }, agentId);

  test("is the default agent unless another one is chosen", () => {
    expect(check([AGENT])).toEqual({ status: "ok", detail: "demo, the default" });
    const other = { ...AGENT, id: "other", default: false, ready: false };
    expect(check([AGENT, other], "other")).toEqual({ status: "ok", detail: "other, not started yet" });
  });

  test("is not found if no host offers it", () => {
    expect(check([AGENT], "nobody")).toMatchObject({
      code: EXIT.notFound,
      detail: "there is no agent nobody",
      hint: "The hosts offer: demo.",
    });
    expect(check([])).toMatchObject({ detail: "there is no default agent", hint: "The hosts offer: none." });
  });

  test("reports why it does not start", () => {
    const broken = { ...AGENT, ready: false, error: "exit 1" };
    expect(check([broken])).toMatchObject({ code: EXIT.error, detail: "demo does not start: exit 1" });
  });

  test("is unknown before a container has started once", () => {
    expect(checkAgent({ agents: [], containerState: CONTAINER }, "any").status).toBe("ok");
  });
});
