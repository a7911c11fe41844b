import { describe, expect, test } from "vitest";
import { type Opened, openSession, prompt, send, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

const STDIO = [{ name: "x", command: "/bin/sh", args: [], env: [] }];
const HTTP = [{ type: "http", name: "x", url: "https://example.com/mcp", headers: [] }];

/** A session in a workspace that takes no commands and no directories outside its root from clients. */
async function strictSession(): Promise<Opened> {
  const workspace = workspaceName();
  const bearer = await token({ workspace, scopes: ["session:read", "workspace:admin"] });
  const rules = { mcpServers: "http", additionalDirectories: "root" };
  expect((await send("PUT", `/api/workspaces/${workspace}`, bearer, rules)).status).toBe(200);
  return sessionIn(workspace);
}

describe("[I13] a message after the opening", () => {
  test.each([
    ["session/prompt", "mcpServers", { mcpServers: STDIO }],
    ["session/set_mode", "mcpServers", { mcpServers: STDIO }],
    ["_x/configure", "mcpServers", { mcp_servers: HTTP }],
    ["_x/configure", "additionalDirectories", { additionalDirectories: ["/root"] }],
  ])("brings nothing along that the workspace forbids: %s with %s", async (method, setting, more) => {
    const { client, agent, sessionId } = await strictSession();
    const { response } = await client.request(method, { ...prompt(sessionId), ...more });
    expect(response.error).toMatchObject({ code: -32602, data: { setting } });
    client.call("_x/configure", { sessionId, mcpServers: HTTP });
    expect(await agent.line()).toMatchObject({ method: "_x/configure", params: { mcpServers: HTTP } });
  });

  test("passes as it is where the workspace allows everything", async () => {
    const { client, agent, sessionId } = await openSession();
    client.call("_x/configure", { sessionId, mcpServers: STDIO });
    expect(await agent.line()).toMatchObject({ params: { mcpServers: STDIO } });
  });

  test("that waited for the process is refused when the rules are known", async () => {
    const workspace = workspaceName();
    const bearer = await token({ workspace, scopes: ["session:read", "workspace:admin"] });
    await send("PUT", `/api/workspaces/${workspace}`, bearer, { mcpServers: "none" });
    const { client, agent, sessionId, host } = await sessionIn(workspace);
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await agent.durable();
    const forbidden = client.call("session/prompt", { ...prompt(sessionId), mcpServers: STDIO });
    const next = await host.agent();
    await next.openSession();
    expect((await client.until(forbidden)).response.error).toMatchObject({ code: -32602 });
  });
});

test("a load without a process loses no allowed servers to a directory that the workspace forbids", async () => {
  const { client, agent, host, sessionId, workspace } = await strictSession();
  agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
  await agent.durable();
  const editor = await Client.open(workspace);
  const given = { sessionId, cwd: "/e", mcpServers: HTTP, additionalDirectories: ["/etc"] };
  expect((await editor.request("session/load", given)).response.result).toEqual({});
  const prompted = client.call("session/prompt", prompt(sessionId));
  const next = await host.agent();
  const { params } = await next.openSession();
  expect(params).toEqual({ cwd: "/workspace", mcpServers: HTTP });
  next.answer(await next.line(), { stopReason: "end_turn" });
  const { before } = await client.until(prompted);
  const told = before.map((one) => JSON.stringify(one)).filter((one) => one.includes("opening_refused"));
  expect(told).toEqual([expect.stringContaining("setting additionalDirectories")]);
});

async function sessionIn(workspace: string): Promise<Opened> {
  const host = await Host.join(workspace);
  const client = await Client.open(workspace);
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  return { workspace, host, client, agent, sessionId: await opening };
}

test("[I13] a fork with servers that the workspace forbids gets one error and opens no session", async () => {
  const { client, sessionId } = await strictSession();
  const fork = { sessionId, cwd: "/", mcpServers: STDIO };
  const { response } = await client.request("session/fork", fork);
  expect(response.error).toMatchObject({ code: -32602, message: expect.stringContaining("mcpServers") });
  const allowed = await client.request("session/fork", { ...fork, mcpServers: [] });
  expect(allowed.response.result).toMatchObject({ sessionId: expect.any(String) });
});
