import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { type Agent, Client, events, Host, type Opened, openSession, sessionStub, texts } from "./harness.ts";
import { HttpPeer } from "./http-peer.ts";

type Json = Record<string, unknown>;

const prompt = (sessionId: string, text = "go") => ({ sessionId, prompt: [{ type: "text", text }] });

async function turn({ client, agent, sessionId }: Opened, say: string): Promise<void> {
  const id = client.call("session/prompt", prompt(sessionId, `ask ${say}`));
  const request = await agent.line();
  agent.update(say);
  agent.answer(request, { stopReason: "end_turn" });
  await client.until(id);
}

describe("initialize", () => {
  it("offers the agent's own capabilities and what the gateway can do for any agent", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const host = await Host.join(workspace, { initialize: false });
    const agentCapabilities = { promptCapabilities: { image: true }, sessionCapabilities: { own: {} } };
    host.send(
      JSON.stringify({ t: "agent", id: "scripted", initialize: { protocolVersion: 1, agentCapabilities } }),
    );
    const client = await Client.raw(workspace);
    const { response } = await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    expect(response.result).toMatchObject({
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true },
        sessionCapabilities: { own: {}, list: {}, resume: {}, close: {}, delete: {}, fork: {} },
      },
    });
  });
});

describe("session/list", () => {
  const list = async (client: Client, params: Json = {}) =>
    (await client.request("session/list", params)).response as {
      result?: { sessions: Json[]; nextCursor?: string };
      error?: Json;
    };

  it("shows the caller's sessions under the directory it named", async () => {
    const opened = await openSession();
    const { client, sessionId, workspace } = opened;
    await vi.waitFor(async () => expect((await list(client)).result?.sessions).toHaveLength(1));
    const { result } = await list(client, { cwd: "/somewhere/else" });
    expect(result).toEqual({
      sessions: [
        {
          sessionId,
          cwd: "/somewhere/else",
          title: null,
          updatedAt: expect.any(String),
          _meta: {
            "acp-edge/workspace": workspace,
            "acp-edge/agent": "scripted",
            "acp-edge/state": "active",
          },
        },
      ],
    });
    expect((await list(client, { cwd: "/workspace" })).result?.sessions).toHaveLength(1);
    expect((await list(client, { cwd: "/nowhere" })).result?.sessions).toEqual([]);
    expect((await list(await Client.open("elsewhere"))).result?.sessions).toEqual([]);
    expect((await list(await Client.open(workspace, "", "other"))).result?.sessions).toEqual([]);
  });

  it("comes in pages", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const insert = env.INDEX.prepare(
      `INSERT INTO sessions (id, tenant, workspace, agent, cwd, client_cwd, state, created_at, updated_at, last_seq)
       VALUES (?, 'acme', ?, 'scripted', '/w', '/c', 'active', '', ?, 1)`,
    );
    const ids = Array.from({ length: 120 }, () => crypto.randomUUID() as string);
    await env.INDEX.batch(ids.map((id, i) => insert.bind(id, workspace, new Date(1e12 + i).toISOString())));
    await Host.join(workspace);
    const client = await Client.open(workspace);
    const seen: unknown[] = [];
    for (let cursor: string | undefined; ; ) {
      const { result } = await list(client, { cwd: "/c", ...(cursor === undefined ? {} : { cursor }) });
      seen.push(...(result?.sessions ?? []).map((session) => session.sessionId));
      cursor = result?.nextCursor;
      if (cursor === undefined) break;
    }
    expect(seen).toEqual(ids.toReversed());
    expect((await list(client, { cursor: "made up" })).error).toMatchObject({ code: -32602 });
  });
});

describe("settings", () => {
  it("are the agent's to change, or to say that it cannot", async () => {
    const { client, agent, sessionId } = await openSession();
    for (const [method, params] of [
      ["session/set_mode", { modeId: "plan" }],
      ["session/set_model", { modelId: "m" }],
      ["session/set_config_option", { configId: "c", value: "v" }],
    ] as const) {
      const id = client.call(method, { sessionId, ...params });
      const request = await agent.line();
      expect(request).toMatchObject({ method, params: { sessionId: "agent-session", ...params } });
      const error = { code: -32601, message: "Method not found" };
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: request.id, error }));
      expect((await client.until(id)).response).toEqual({ jsonrpc: "2.0", id, error });
    }
    const id = client.call("session/set_mode", { sessionId, modeId: "plan" });
    agent.answer(await agent.line(), {});
    expect((await client.until(id)).response.result).toEqual({});
  });
});

describe("session/fork", () => {
  const fork = async (client: Client, sessionId: string, at?: number) =>
    (
      await client.request("session/fork", {
        sessionId,
        cwd: "/there",
        mcpServers: [{ name: "m", command: "c", args: [], env: [] }],
        ...(at === undefined ? {} : { _meta: { "acp-edge/at": at } }),
      })
    ).response as { result: { sessionId: string }; error?: Json };

  it("makes a session of its own with the history, and an agent that starts afresh", async () => {
    const opened = await openSession({ loadSession: true });
    const { client, host, workspace } = opened;
    await turn(opened, "one");
    const { result } = await fork(client, opened.sessionId);
    const sessionId = result.sessionId;
    expect(sessionId).not.toBe(opened.sessionId);

    const id = client.call("session/prompt", prompt(sessionId, "two"));
    const agent = await host.agent();
    const opening = await agent.line();
    // It cannot go on in the other's session, and cannot fork it.
    expect(opening).toMatchObject({
      method: "session/new",
      params: { cwd: "/workspace", mcpServers: [{ name: "m" }] },
    });
    agent.answer(opening, { sessionId: "fresh" });
    const request = await agent.line();
    agent.update("two", "fresh");
    agent.answer(request, { stopReason: "end_turn" });
    const { before } = await client.until(id);
    expect(texts(before)).toEqual(["two"]);
    expect(JSON.stringify(before)).toContain("does not remember");

    const reader = await Client.open(workspace);
    const load = async (which: string) =>
      texts((await reader.request("session/load", { sessionId: which, cwd: "/", mcpServers: [] })).before);
    expect(await load(sessionId)).toEqual(["one", "two"]);
    expect(await load(opened.sessionId)).toEqual(["one"]);
  });

  it("ends where it is told to", async () => {
    const opened = await openSession();
    const { client, workspace, sessionId } = opened;
    await turn(opened, "one");
    const at = (await events(workspace, sessionId)).length;
    await turn(opened, "two");
    const copy = (await fork(client, sessionId, at)).result.sessionId;
    const reader = await Client.open(workspace);
    const { before } = await reader.request("session/load", { sessionId: copy, cwd: "/", mcpServers: [] });
    expect(texts(before)).toEqual(["one"]);
    expect((await fork(client, sessionId, 100_000)).error).toMatchObject({ code: -32602 });
  });

  it("is the agent's own where it can, and another session where it then cannot", async () => {
    const opened = await openSession({ sessionCapabilities: { fork: {}, resume: {} } });
    const { client, host } = opened;
    await turn(opened, "one");
    const open = async (answer: (agent: Agent, request: Json & { id?: number }) => Promise<unknown>) => {
      const { sessionId } = (await fork(client, opened.sessionId)).result;
      const id = client.call("session/prompt", prompt(sessionId));
      const agent = await host.agent();
      const opening = await agent.line();
      expect(opening).toMatchObject({
        method: "session/fork",
        params: { sessionId: "agent-session", cwd: "/workspace" },
      });
      await answer(agent, opening);
      agent.answer(await agent.line(), { stopReason: "end_turn" });
      return JSON.stringify((await client.until(id)).before);
    };
    const forked = await open(async (agent, opening) => agent.answer(opening, { sessionId: "forked" }));
    expect(forked).not.toContain("does not remember");
    const failed = await open(async (agent, { id }) => {
      agent.items(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: "no" } }));
      const next = await agent.line();
      expect(next.method).toBe("session/new");
      agent.answer(next, { sessionId: "new" });
    });
    expect(failed).toContain("does not remember");
  });

  it("leaves behind what was going on, and is not for strangers", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    const copy = (await fork(client, sessionId)).result.sessionId;
    const kinds = (await events(opened.workspace, copy)).map(({ kind }) => kind);
    expect(kinds).toContain("turn.failed");
    agent.answer(request, { stopReason: "end_turn" });
    const { response, before } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(before).toEqual([]);
    const stranger = await Client.open(opened.workspace, "", "other");
    expect((await fork(stranger, sessionId)).error).toMatchObject({ code: -32002 });
    expect((await fork(client, crypto.randomUUID())).error).toMatchObject({ code: -32002 });
  });
});

describe("authenticate and logout", () => {
  const login = { methodId: "key" };
  const opening = { cwd: "/", mcpServers: [] };
  const required = { code: -32000, message: "Authentication required" };

  async function connected() {
    const workspace = `w-${crypto.randomUUID()}`;
    return { workspace, host: await Host.join(workspace), client: await Client.open(workspace) };
  }

  /** The agent answers the client's request, and what it was asked. */
  async function answered(client: Client, agent: Agent, id: number, result: Json = {}): Promise<Json> {
    const request = await agent.line();
    agent.answer(request, result);
    expect((await client.until(id)).response.result).toMatchObject("sessionId" in result ? {} : result);
    return request;
  }

  it("before there is a session: the process that takes the login opens the session", async () => {
    const { host, client, workspace } = await connected();
    const id = client.call("authenticate", login);
    const agent = await host.agent();
    expect(await answered(client, agent, id)).toMatchObject({ method: "authenticate", params: login });
    // It is no session yet, and nobody finds it.
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
    // The next session has a process of its own.
    const second = client.call("session/new", opening);
    const other = await host.agent();
    await other.openSession();
    expect((await client.until(second)).response.result).toMatchObject({ sessionId: other.sessionId });
  });

  it("survives an eviction in between", async () => {
    const { host, client } = await connected();
    const id = client.call("authenticate", login);
    const agent = await host.agent();
    await answered(client, agent, id);
    await evictDurableObject(sessionStub(agent.sessionId));
    const session = client.call("session/new", opening);
    await agent.openSession();
    expect((await client.until(session)).response.result).toMatchObject({ sessionId: agent.sessionId });
  });

  it("over HTTP it is answered on the connection's stream, with a session and without", async () => {
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

  it("an agent that opens no session without a login opens it after one", async () => {
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

  it("with several sessions all their agents hear of it, and the client gets one answer", async () => {
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
    // A login that fails is nobody else's business.
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

  it("a process nobody opens a session in ends with its client", async () => {
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

  it("is told when there is no agent, and may try again", async () => {
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

describe("elicitation", () => {
  const create = (id: unknown, scope: Json) =>
    JSON.stringify({
      jsonrpc: "2.0",
      id,
      method: "elicitation/create",
      params: { ...scope, mode: "form", message: "?", requestedSchema: { type: "object", properties: {} } },
    });

  async function second({ workspace, sessionId }: Opened): Promise<Client> {
    const client = await Client.open(workspace);
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    return client;
  }

  it("of a session is asked of everyone; the first answer wins", async () => {
    const opened = await openSession();
    const { client, agent } = opened;
    const other = await second(opened);
    agent.items(create("e", { sessionId: "agent-session" }));
    const asked = await client.takeJson();
    expect(await other.takeJson()).toEqual(asked);
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "decline" } }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "e", result: { action: "decline" } });
    expect(await other.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
  });

  it("is not lost to a client that does not know the method while another may", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await second(opened);
    const unknown = (id: unknown) =>
      JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } });
    agent.items(create("e", { sessionId: "agent-session" }));
    const asked = await other.takeJson();
    client.send(unknown(asked.id));
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    other.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "accept" } }));
    expect(await agent.line()).toMatchObject({ id: "e", result: { action: "accept" } });
    agent.items(create("f", { sessionId: "agent-session" }));
    const again = await other.takeJson();
    client.send(unknown(again.id));
    other.send(unknown(again.id));
    expect(await agent.line()).toMatchObject({ id: "f", error: { code: -32601 } });
  });

  it("of a request is asked of the client that made it, under the id it gave", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await second(opened);
    client.send(
      JSON.stringify({ jsonrpc: "2.0", id: "mine", method: "_vendor/login", params: { sessionId } }),
    );
    const request = await agent.line();
    agent.items(create("e", { requestId: request.id }));
    const asked = await client.takeJson();
    expect(asked).toMatchObject({ method: "elicitation/create", params: { requestId: "mine" } });
    // Nobody else may answer it, and nobody else hears of it.
    other.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "accept" } }));
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "cancel" } }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "e", result: { action: "cancel" } });
    agent.update("after");
    expect(texts([await other.takeJson()])).toEqual(["after"]);
    agent.items(create("f", { requestId: 99_999 }));
    expect(await agent.line()).toMatchObject({ id: "f", error: { code: -32602 } });
  });

  it("is answered when the turn is cancelled", async () => {
    const { client, agent, sessionId } = await openSession();
    client.call("session/prompt", prompt(sessionId));
    await agent.line();
    agent.items(create("e", { sessionId: "agent-session" }));
    const asked = await client.takeJson();
    client.notify("session/cancel", { sessionId });
    expect(await agent.line()).toMatchObject({ method: "session/cancel" });
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "e", result: { action: "cancel" } });
    expect(await client.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
  });
});

describe("extensions", () => {
  it("pass both ways, with and without an answer", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("_vendor/ask", { sessionId, n: 1 });
    const request = await agent.line();
    expect(request).toMatchObject({ method: "_vendor/ask", params: { sessionId: "agent-session", n: 1 } });
    agent.answer(request, { n: 2 });
    expect((await client.until(id)).response.result).toEqual({ n: 2 });
    client.notify("_vendor/tell", { sessionId, n: 3 });
    expect(await agent.line()).toMatchObject({ method: "_vendor/tell", params: { n: 3 } });

    agent.items('{"jsonrpc":"2.0","id":4,"method":"_agent/ask","params":{"n":4}}');
    const asked = await client.takeJson();
    expect(asked).toMatchObject({ method: "_agent/ask", params: { n: 4 } });
    const error = { code: -32601, message: "Method not found" };
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, error }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 4, error });
    agent.items('{"jsonrpc":"2.0","method":"_agent/tell","params":{"n":5}}');
    expect(await client.takeJson()).toMatchObject({ method: "_agent/tell", params: { n: 5 } });
  });

  it("can be cancelled from both sides", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("_vendor/slow", { sessionId });
    const request = await agent.line();
    client.notify("$/cancel_request", { requestId: id });
    expect(await agent.line()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: request.id },
    });
    agent.items('{"jsonrpc":"2.0","id":"s","method":"_agent/slow","params":{}}');
    const asked = await client.takeJson();
    agent.items('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"s"}}');
    expect(await client.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
    expect(await agent.line()).toMatchObject({ id: "s", error: { code: -32800 } });
  });
});
