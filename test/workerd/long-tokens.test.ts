import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { connectionStub, get, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { type Claims, mint } from "./tokens.ts";

const ATTACHMENT_BYTES = 16 * 1024;

/** A token for many workspaces, of which the first is in use. */
async function longToken(workspace: string, workspaces: number, more: Claims = {}): Promise<string> {
  const others = Array.from({ length: workspaces - 1 }, (_, i) => `workspace-number-${i}-with-a-long-name`);
  return mint({ workspaces: [workspace, ...others], sub: "s".repeat(500), jti: "j".repeat(500), ...more });
}

function upgrade(workspace: string, bearer: string): Promise<Response> {
  return exports.default.fetch(`https://edge.test/acp?workspace=${workspace}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
}

describe("a token for as many workspaces as a token may name", () => {
  test("opens sessions over a plain WebSocket, as many as a connection may have, also after hibernation", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const bearer = await longToken(workspace, 1000);
    const response = await upgrade(workspace, bearer);
    expect(response.status).toBe(101);
    const connection = connectionStub(response.headers.get("Acp-Connection-Id") ?? "");
    const client = new Client(response.webSocket as WebSocket);
    await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    const sessions: string[] = [];
    for (let i = 0; i < DEFAULT_LIMITS.sessionsPerConnection; i += 1) {
      const opening = client.newSession();
      const agent = await host.agent();
      await agent.openSession();
      sessions.push(await opening);
      agent.link.socket.close(1000);
    }
    expect((await client.request("session/new", { cwd: "/", mcpServers: [] })).response.error).toBeDefined();
    await evictDurableObject(connection);
    const { response: listed } = await client.request("session/list", {});
    expect((listed.result as { sessions: unknown[] }).sessions.length).toBeGreaterThan(0);
    for (const sessionId of [sessions[0], sessions.at(-1)]) {
      const loaded = await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
      expect(loaded.response.error).toBeUndefined();
    }
    const bytes = await runInDurableObject(connection, (_, state) =>
      state.getWebSockets().map((ws) => JSON.stringify(ws.deserializeAttachment()).length),
    );
    expect(Math.max(...bytes)).toBeLessThan(ATTACHMENT_BYTES);
  });

  test("works over the resumable wire, over HTTP and for live readers", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const bearer = await longToken(workspace, 1000, {
      scopes: ["session:read", "session:prompt", "workspace:admin"],
    });
    const client = await Resumable.open(workspace, { bearer });
    expect((await client.request("session/list", {})).error).toBeUndefined();
    for (const path of [
      "/api/sessions",
      "/api/permissions",
      "/api/workspaces",
      `/api/workspaces/${workspace}`,
    ])
      expect((await get(path, bearer)).status).toBe(200);
  });
});

test("a token for more workspaces than a token may name is refused, and says why by its status", async () => {
  const workspace = workspaceName();
  for (const [workspaces, status] of [
    [1001, 401],
    [5000, 431],
  ] as const)
    expect((await upgrade(workspace, await longToken(workspace, workspaces))).status).toBe(status);
});
