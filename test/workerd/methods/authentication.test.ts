import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { events, eventsText, sessionStub, workspaceName } from "../fixtures.ts";
import type { Agent } from "../peers/agent.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { HttpPeer } from "../peers/http-client.ts";

describe("authenticate and logout", () => {
  const login = { methodId: "key" };
  const opening = { cwd: "/", mcpServers: [] };
  const required = { code: -32000, message: "Authentication required" };

  async function connected() {
    const workspace = workspaceName();
    return { workspace, host: await Host.join(workspace), client: await Client.open(workspace) };
  }

  /** The agent answers the client's request; returns the request. */
  async function answered(client: Client, agent: Agent, id: number, result: Json = {}): Promise<Json> {
    const request = await agent.line();
    agent.answer(request, result);
    expect((await client.until(id)).response.result).toMatchObject("sessionId" in result ? {} : result);
    return request;
  }

  test("use, before there is a session, the process that later opens it", async () => {
    const { host, client, workspace } = await connected();
    const id = client.call("authenticate", login);
    const agent = await host.agent();
    expect(await answered(client, agent, id)).toMatchObject({ method: "authenticate", params: login });
    // There is no session yet, and nobody finds one.
    expect((await client.request("session/list", {})).response.result).toMatchObject({ sessions: [] });
    const session = client.call("session/new", opening);
    const request = await agent.line();
    expect(request).toMatchObject({ method: "session/new", params: { cwd: "/workspace" } });
    agent.answer(request, { sessionId: "agent-session" });
    const { response, before } = await client.until(session);
    expect(before).toEqual([]);
    const { sessionId } = response.result as { sessionId: string };
    expect(sessionId).toBe(agent.sessionId);
    const turn = client.call("session/prompt", { sessionId, prompt: [] });
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "end_turn" });
    const kinds = (await events(workspace, sessionId)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "runtime.connected").length).toBe(1);
    // The next session gets its own process.
    const second = client.call("session/new", opening);
    const other = await host.agent();
    await other.openSession();
    expect((await client.until(second)).response.result).toMatchObject({ sessionId: other.sessionId });
  });

  test("survive an eviction in between", async () => {
    const { host, client } = await connected();
    const id = client.call("authenticate", login);
    const agent = await host.agent();
    await answered(client, agent, id);
    await evictDurableObject(sessionStub(agent.sessionId));
    const session = client.call("session/new", opening);
    await agent.openSession();
    expect((await client.until(session)).response.result).toMatchObject({ sessionId: agent.sessionId });
  });

  test("are answered on the connection's stream over HTTP, with and without a session", async () => {
    const { host, workspace } = await connected();
    const peer = await HttpPeer.open(workspace);
    const own = await peer.stream();
    const id = await peer.call("authenticate", login);
    const agent = await host.agent();
    agent.answer(await agent.line(), {});
    expect((await own.until(id)).length).toBe(1);
    const session = await peer.call("session/new", opening);
    await agent.openSession();
    expect((await own.until(session)).at(-1)?.message.result).toMatchObject({ sessionId: agent.sessionId });
    for (const method of ["authenticate", "logout"]) {
      const again = await peer.call(method, login);
      expect(await agent.line()).toMatchObject({ method });
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: agent.delivered, result: { done: method } }));
      expect((await own.until(again)).at(-1)?.message.result).toEqual({ done: method });
    }
  });

  test("let an agent that needs a login open its session afterwards", async () => {
    const { host, client, workspace } = await connected();
    const refused = client.call("session/new", opening);
    const agent = await host.agent();
    const first = await agent.line();
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: first.id, error: required }));
    expect((await client.until(refused)).response.error).toMatchObject(required);
    await answered(client, agent, client.call("authenticate", login));
    const session = client.call("session/new", opening);
    await agent.openSession();
    expect((await client.until(session)).response.result).toMatchObject({ sessionId: agent.sessionId });
    const kinds = (await events(workspace, agent.sessionId)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "runtime.connected").length).toBe(1);
  });

  test("reach the agents of all sessions, and the client gets one answer", async () => {
    const { host, client } = await connected();
    const agents: Agent[] = [];
    for (let i = 0; i < 3; i += 1) {
      const session = client.call("session/new", opening);
      const agent = await host.agent();
      await agent.openSession();
      await client.until(session);
      agents.push(agent);
    }
    const [a, b, newest] = agents as [Agent, Agent, Agent];
    for (const method of ["authenticate", "logout"]) {
      const id = client.call(method, login);
      const request = await newest.line();
      expect(request).toMatchObject({ method, params: login });
      newest.answer(request, {});
      expect((await client.until(id)).response.result).toEqual({});
      for (const agent of [a, b]) {
        const relayed = await agent.line();
        expect(relayed).toMatchObject({ method, params: login });
        agent.answer(relayed, {});
        await agent.durable();
      }
    }
    // A failed login does not affect other sessions.
    const failing = client.call("authenticate", login);
    const { id } = await newest.line();
    newest.items(JSON.stringify({ jsonrpc: "2.0", id, error: required }));
    const { response, before } = await client.until(failing);
    expect(response.error).toEqual(required);
    expect(before).toEqual([]);
    const turn = client.call("session/prompt", { sessionId: a.sessionId, prompt: [] });
    expect(await a.line()).toMatchObject({ method: "session/prompt" });
    a.answer({ id: a.delivered }, { stopReason: "end_turn" });
    expect((await client.until(turn)).before).toEqual([]);
  });

  /** The process wants a login before it opens the session, and gets one. Returns the login. */
  async function logsIn(agent: Agent, method = "session/new"): Promise<Json> {
    const refused = await agent.line();
    expect(refused.method).toBe(method);
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: refused.id, error: required }));
    const given = await agent.line();
    expect(given.method).toBe("authenticate");
    agent.answer(given, {});
    const again = await agent.line();
    expect(again.method).toBe(method);
    agent.answer(again, { sessionId: "agent-session" });
    return given;
  }

  test("ACP-SESSION-002: reach every later process of the connection, with its credentials", async () => {
    const { host, client, workspace } = await connected();
    const params = { methodId: "key", _meta: { apiKey: "k-4711" } };
    const id = client.call("authenticate", params);
    const agent = await host.agent();
    await answered(client, agent, id);
    const first = client.call("session/new", opening);
    await agent.openSession();
    await client.until(first);
    const second = client.call("session/new", opening);
    const other = await host.agent();
    await evictDurableObject(sessionStub(other.sessionId));
    expect((await logsIn(other)).params).toEqual(params);
    expect((await client.until(second)).response.result).toMatchObject({ sessionId: other.sessionId });
    for (const { sessionId } of [agent, other])
      expect(await eventsText(workspace, sessionId)).not.toContain("k-4711");
    // The process of the same session, after its end.
    const turn = client.call("session/prompt", { sessionId: other.sessionId, prompt: [] });
    await other.line();
    other.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    expect((await client.until(turn)).response.error).toBeDefined();
    await evictDurableObject(sessionStub(other.sessionId));
    const next = client.call("session/prompt", { sessionId: other.sessionId, prompt: [] });
    const restarted = await host.agent();
    expect((await logsIn(restarted)).params).toEqual(params);
    restarted.answer(await restarted.line(), { stopReason: "end_turn" });
    expect((await client.until(next)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("reach the process of a session that the client loads, or forks", async () => {
    const { host, client, workspace } = await connected();
    const before = client.call("session/new", opening);
    const old = await host.agent();
    await old.openSession();
    await client.until(before);
    old.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await old.durable();
    const editor = await Client.open(workspace);
    const id = editor.call("authenticate", login);
    await answered(editor, await host.agent(), id);
    const { sessionId } = old;
    await editor.request("session/load", { sessionId, ...opening });
    const turn = editor.call("session/prompt", { sessionId, prompt: [] });
    const agent = await host.agent();
    expect((await logsIn(agent)).params).toEqual(login);
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await editor.until(turn);
    const forked = await editor.request("session/fork", { sessionId, ...opening });
    const fork = forked.response.result as { sessionId: string };
    const forkTurn = editor.call("session/prompt", { ...fork, prompt: [] });
    const another = await host.agent();
    expect((await logsIn(another)).params).toEqual(login);
    another.answer(await another.line(), { stopReason: "end_turn" });
    await editor.until(forkTurn);
  });

  test("end with a logout: a later process gets no login", async () => {
    const { host, client } = await connected();
    const id = client.call("authenticate", login);
    const agent = await host.agent();
    await answered(client, agent, id);
    const first = client.call("session/new", opening);
    await agent.openSession();
    await client.until(first);
    await answered(client, agent, client.call("logout", {}));
    const second = client.call("session/new", opening);
    const other = await host.agent();
    const request = await other.line();
    other.items(JSON.stringify({ jsonrpc: "2.0", id: request.id, error: required }));
    expect((await client.until(second)).response.error).toMatchObject(required);
  });

  test("leave no process behind: one without a session ends with its client", async () => {
    const { host, client } = await connected();
    const id = client.call("authenticate", login);
    const agent = await host.agent();
    await answered(client, agent, id);
    client.socket.close();
    expect(await agent.stopped()).toBe("deleted");
    await vi.waitUntil(() =>
      runInDurableObject(
        sessionStub(agent.sessionId),
        (_, state) =>
          state.storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'log'").toArray().length === 0,
      ),
    );
  });

  test("fail while there is no agent, and can be tried again", async () => {
    const { host, client } = await connected();
    const id = client.call("authenticate", login);
    const agent = await host.agent();
    await agent.line();
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    expect((await client.until(id)).response.error).toMatchObject({ code: -32603 });
    const again = client.call("authenticate", login);
    const next = await host.agent();
    await answered(client, next, again);
    const session = client.call("session/new", opening);
    await next.openSession();
    expect((await client.until(session)).response.result).toMatchObject({ sessionId: next.sessionId });
  });
});
