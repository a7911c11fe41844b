import { exports } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { openSession, prompt, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

describe("a WebSocket", () => {
  test.each([
    ["acp", "acp"],
    ["other, acp-edge", "acp-edge"],
    ["first, second", "first"],
  ])("that offers %s gets %s", async (offered, agreed) => {
    const workspace = workspaceName();
    const response = await exports.default.fetch(`https://edge.test/acp?workspace=${workspace}`, {
      headers: {
        Upgrade: "websocket",
        Authorization: `Bearer ${await token({ workspace })}`,
        "Sec-WebSocket-Protocol": offered,
      },
    });
    expect(response.headers.get("Sec-WebSocket-Protocol")).toBe(agreed);
    response.webSocket?.accept();
    response.webSocket?.close();
  });

  test("that offers nothing but its token gets none back", async () => {
    const workspace = workspaceName();
    const bearer = await token({ workspace });
    const response = await exports.default.fetch(`https://edge.test/acp?workspace=${workspace}`, {
      headers: { Upgrade: "websocket", "Sec-WebSocket-Protocol": `acp-edge.token.${bearer}` },
    });
    expect(response.status).toBe(101);
    expect(response.headers.get("Sec-WebSocket-Protocol")).toBeNull();
    response.webSocket?.accept();
    response.webSocket?.close();
  });
});

describe("an error", () => {
  test("is one sentence without line breaks", async () => {
    const { client, sessionId } = await openSession();
    for (const [method, params] of [
      ["session/list", { cursor: "no cursor", cwd: 1 }],
      ["session/fork", { sessionId, cwd: "/", _meta: { "acp-edge/at": "x" } }],
    ] as const) {
      const { message } = (await client.request(method, params)).response.error as { message: string };
      expect(message).toMatch(/^[^\n✖→]+$/u);
    }
  });
});

describe("a new session", () => {
  test.each(["relative", "./here", "C:relative", ""])("is refused in the directory %j", async (cwd) => {
    const { client, sessionId } = await openSession();
    for (const [method, more] of [
      ["session/new", {}],
      ["session/fork", { sessionId }],
    ] as const) {
      const { response } = await client.request(method, { cwd, mcpServers: [], ...more });
      expect(response.error).toMatchObject({
        code: -32602,
        message: expect.stringContaining("absolute path"),
      });
    }
  });

  test.each(["C:\\project", "d:/project", "\\\\server\\share"])("is opened in %s", async (cwd) => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const id = client.call("session/new", { cwd, mcpServers: [] });
    await (await host.agent()).openSession();
    expect((await client.until(id)).response.result).toHaveProperty("sessionId");
  });
});

test("an agent that does not name itself is named by the gateway", async () => {
  const workspace = workspaceName();
  const client = await Client.raw(workspace);
  const { response } = await client.request("initialize", { protocolVersion: 1 });
  expect((response.result as Json).agentInfo).toMatchObject({ name: "acp-edge" });
});

test("a request without jsonrpc is refused, and an answer without it is taken", async () => {
  const { client, agent, sessionId } = await openSession();
  client.send(JSON.stringify({ id: "x", method: "session/prompt", params: prompt(sessionId) }));
  expect(await client.takeJson()).toMatchObject({ id: "x", error: { code: -32600 } });
  agent.items('{"jsonrpc":"2.0","id":4,"method":"_agent/ask","params":{}}');
  const asked = await client.takeJson();
  client.send(JSON.stringify({ id: asked.id, result: { n: 1 } }));
  expect(await agent.line()).toMatchObject({ id: 4, result: { n: 1 } });
});

test("a replay has no notices of the gateway", async () => {
  const { workspace, client, agent, sessionId } = await openSession();
  agent.items(JSON.stringify(["dropped", "it was too long"]));
  expect(await client.takeJson()).toMatchObject({
    params: { update: { _meta: { "acp-edge/event": "agent.violation" } } },
  });
  const reader = await Client.open(workspace);
  const { before } = await reader.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
  expect(before).toEqual([]);
});
