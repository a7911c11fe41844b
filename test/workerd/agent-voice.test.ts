import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { get, openSession, send, workspaceName } from "./fixtures.ts";
import { permissionRequest, updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { HELLO, Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";
import { ALL_OF_A_CLIENT, mint, token } from "./tokens.ts";

/** A client with two sessions; `attack` is the agent of the first, `victim` the id of the second. */
async function twoSessions() {
  const opened = await openSession();
  const { client, host, agent: attack } = opened;
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  return { ...opened, attack, victim: await opening };
}

describe("an agent speaks for its own session only", () => {
  test("[I13] its update that names another session of the client is no update of that session, and counted", async () => {
    const { client, attack, victim, sessionId, workspace } = await twoSessions();
    attack.items(updateText("forged", victim));
    const seen = await client.takeJson();
    expect(seen).toMatchObject({ params: { sessionId: `${sessionId}/${victim}` } });
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ violations: { foreignSession: 1 } });
  });

  test("its update that names a session nobody knows is passed on, under an id of its own", async () => {
    const { client, attack, sessionId } = await twoSessions();
    attack.items(updateText("sub", "a sub/agent"));
    const seen = await client.takeJson();
    expect(seen).toMatchObject({ params: { sessionId: `${sessionId}/a%20sub%2Fagent` } });
    expect(JSON.stringify(seen)).toContain("sub");
  });

  test("[I13] its requests carry its own session's id, whatever they say", async () => {
    const { client, attack, victim, sessionId } = await twoSessions();
    client.call("session/prompt", { sessionId, prompt: [] });
    await attack.line();
    attack.items(permissionRequest(7).replace("agent-session", victim));
    const request = await client.takeJson();
    expect(request).toMatchObject({ method: "session/request_permission", params: { sessionId } });
    attack.items(
      JSON.stringify({ jsonrpc: "2.0", id: 8, method: "_vendor/ask", params: { sessionId: victim } }),
    );
    expect(await client.takeJson()).toMatchObject({ method: "_vendor/ask", params: { sessionId } });
  });

  test("[I13] it does not speak in the gateway's name", async () => {
    const { client, attack } = await twoSessions();
    attack.items(
      '{"jsonrpc":"2.0","method":"_acp-edge/token_expiring","params":{}}',
      '{"jsonrpc":"2.0","id":1,"method":"_acp-edge/ping","params":{}}',
    );
    expect(await attack.line()).toMatchObject({ id: 1, error: { code: -32601 } });
    attack.update("after");
    expect(JSON.stringify(await client.takeJson())).toContain("after");
  });
});

describe("a reader", () => {
  const AGENTS = [
    { id: "first", name: "First", default: false },
    { id: "second", name: "Second", default: false },
  ];
  const INITIALIZE = { protocolVersion: 1, clientCapabilities: {} };

  test.each(["observer", "link"])("[I12] starts no process: %s", async (kind) => {
    const workspace = workspaceName();
    const host = new Host(await dialHost(workspace, "/host/control"), workspace);
    host.send(JSON.stringify({ ...HELLO, instance: "i", agents: [...AGENTS, ...HELLO.agents] }));
    expect(await host.takeJson()).toEqual({ t: "welcome" });
    host.send(JSON.stringify({ t: "agent", id: "scripted", initialize: { protocolVersion: 1 } }));
    const owner = await Client.open(workspace);
    const session = owner.newSession();
    const agent = await host.agent();
    await agent.openSession();
    const sessionId = await session;

    const boss = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, sub: "boss" });
    const shared = await send("POST", "/api/shares", boss, { session: sessionId, expiresIn: 60 });
    const bearer =
      kind === "link"
        ? ((await shared.json()) as { token: string }).token
        : await token({ workspace, scopes: ["session:read"] });
    const reader = await Peer.connect(`/acp?workspace=${workspace}&agent=second`, bearer);
    const ask = async (method: string, params: object): Promise<Json> => {
      reader.send(JSON.stringify({ jsonrpc: "2.0", id: method, method, params }));
      for (;;) {
        const message = await reader.takeJson();
        if (message.id === method) return message;
      }
    };
    expect(await ask("initialize", INITIALIZE)).toHaveProperty("result");
    expect(await ask("session/load", { sessionId, cwd: "/", mcpServers: [] })).toHaveProperty("result");
    expect(await ask("session/resume", { sessionId, cwd: "/", mcpServers: [] })).toHaveProperty("result");
    expect(await ask("session/list", {})).toHaveProperty("result");
    expect(await ask("authenticate", { methodId: "m" })).toHaveProperty("error");
    expect(await ask("session/new", { cwd: "/", mcpServers: [] })).toHaveProperty("error");
    for (const path of [`/api/sessions/${sessionId}`, `/api/sessions/${sessionId}/events`])
      expect((await get(path, bearer)).status).toBe(200);

    // The next message that the host gets is the one that a person who may prompt causes.
    const prompting = await Client.raw(workspace, "&agent=first");
    prompting.call("initialize", INITIALIZE);
    expect(await host.takeJson()).toEqual({ t: "warm", agent: "first" });
  });
});
