/** The rules for what clients bring along when they open a session, in a workspace with a container and in one without. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client } from "./client.ts";
import { type Gateway, startGateway, withWorkspace } from "./gateway.ts";
import { textOf } from "./updates.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway({ args: ["--on-demand", "--agents", "demo"] });
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const STDIO = { name: "shell", command: "/bin/sh", args: ["-c", "id"], env: [] };
const HTTP = { type: "http", name: "docs", url: "https://mcp.example", headers: [] };

async function workspace(name: string, settings: object): Promise<Gateway> {
  const own = await withWorkspace(gateway, name);
  const response = await own.api(`/api/workspaces/${name}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(settings),
  });
  expect(response.status, await response.clone().text()).toBe(200);
  return own;
}

async function refusal(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => "opened",
    ({ code, data }: { code: number; data: unknown }) => ({ code, data }),
  );
}

describe("a workspace with a container", () => {
  test("takes no commands, no directories outside and no settings of the agent from clients, by default", async () => {
    const own = await workspace("strict", { container: {} });
    const view = (await (await own.api("/api/workspaces/strict")).json()) as { opening: object };
    expect(view.opening).toMatchObject({ mcpServers: "http", additionalDirectories: "root" });
    await using client = await Client.connect(own);
    const open = (more: object) =>
      client.agent.request("session/new", { cwd: "/e", mcpServers: [], ...more });
    expect(await refusal(open({ mcpServers: [STDIO] }))).toEqual({
      code: -32003,
      data: { setting: "mcpServers" },
    });
    expect(await refusal(open({ additionalDirectories: ["/"] }))).toEqual({
      code: -32003,
      data: { setting: "additionalDirectories" },
    });
    const { sessionId } = (await open({ mcpServers: [HTTP], _meta: { claudeCode: {} } })) as {
      sessionId: string;
    };
    const { updates } = await client.prompt(sessionId, "/mcp");
    expect(textOf(updates)).toContain("mcp servers: docs");
    expect(JSON.stringify(client.wire.entries)).toContain("_meta.claudeCode");

    // The agent session of a fork could only be opened with the commands.
    const fork = { sessionId, cwd: "/e", mcpServers: [STDIO] };
    await expect(client.agent.request("session/fork", fork)).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining("the workspace's setting mcpServers"),
    });
  });

  test("takes what its settings allow", async () => {
    const own = await workspace("lax", { container: {}, mcpServers: "all", additionalDirectories: "all" });
    await using client = await Client.connect(own);
    const params = { cwd: "/e", mcpServers: [STDIO], additionalDirectories: ["/"] };
    const { sessionId } = (await client.agent.request("session/new", params)) as { sessionId: string };
    expect(textOf((await client.prompt(sessionId, "/mcp")).updates)).toContain("mcp servers: shell");
  });
});
