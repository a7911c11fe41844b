import { runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { connectionStub, get, openSession, sessionStub, texts, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";
import { token } from "./tokens.ts";

const initialize = '{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}';

describe("the handshake", () => {
  test("answers 101 with the connection's id", async () => {
    const workspace = workspaceName();
    const response = await exports.default.fetch(
      `https://edge.test/acp?token=${await token({ workspace })}`,
      { headers: { Upgrade: "websocket" } },
    );
    expect(response.status).toBe(101);
    expect(response.headers.get("Acp-Connection-Id")).toMatch(/^[0-9a-f-]{36}$/);
    response.webSocket?.accept();
    response.webSocket?.close();
  });

  test("offers what the agent can do and what the gateway adds", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const client = await Client.raw(workspace);
    client.send(initialize);
    expect(await client.takeJson()).toEqual({
      jsonrpc: "2.0",
      id: "i",
      result: {
        protocolVersion: 1,
        agentInfo: { name: "scripted", version: "1" },
        agentCapabilities: {
          loadSession: true,
          sessionCapabilities: {
            ...{ list: {}, resume: {}, close: {}, delete: {}, fork: {} },
            ...{ title: {}, archive: {}, status: {} },
          },
        },
        authMethods: [],
      },
    });
  });

  test("waits for a host that is still asking its agent", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace, { initialize: false });
    const client = await Client.raw(workspace);
    client.send(initialize);
    host.send(
      JSON.stringify({
        t: "agent",
        id: "scripted",
        initialize: { protocolVersion: 1, agentInfo: { name: "late", version: "2" } },
      }),
    );
    expect((await client.takeJson()).result).toMatchObject({ agentInfo: { name: "late" } });
  });

  test("answers version 1 to any other integer, and refuses anything that is no integer", async () => {
    for (const [version, expected] of [
      [2, { result: { protocolVersion: 1 } }],
      ['"x"', { error: { code: -32602 } }],
      [-1, { error: { code: -32602 } }],
    ]) {
      const client = await Client.raw(workspaceName());
      client.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":${version}}}`);
      expect(await client.takeJson()).toMatchObject(expected as object);
    }
  });

  test("has to come first: any other message closes the socket", async () => {
    const client = await Client.raw(workspaceName());
    client.send('{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}');
    expect((await client.closed).code).toBe(1002);
  });

  test("happens only once", async () => {
    const client = await Client.open(workspaceName());
    client.send(initialize);
    expect(await client.takeJson()).toMatchObject({ id: "i", error: { code: -32600 } });
  });

  test("names the known agents when a client asks for an unknown one", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const client = await Client.raw(workspace, "&agent=nope");
    client.send(initialize);
    expect(await client.takeJson()).toMatchObject({
      error: { code: -32602, data: { agents: ["scripted"] } },
    });
  });
});

describe("invalid input", () => {
  test.each([
    ["not json", -32700],
    ['{"a":', -32700],
    ["[]", -32600],
    ['[{"jsonrpc":"2.0","id":1,"method":"x"}]', -32600],
    ["{}", -32600],
    ["7", -32600],
    ["null", -32600],
    ['{"jsonrpc":"2.0","id":4}', -32600],
  ])("%s gets error %i, and the connection goes on", async (text, code) => {
    const client = await Client.open(workspaceName());
    client.send(text);
    expect(await client.takeJson()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code } });
    const { response } = await client.request("no/such", {});
    expect(response.error).toMatchObject({ code: -32601 });
  });

  test("an oversize frame gets an error, and the connection goes on", async () => {
    const { client, agent, workspace } = await openSession();
    const other = await Client.open(workspace);
    other.send(" ".repeat(DEFAULT_LIMITS.frameChars + 1));
    expect(await other.takeJson()).toMatchObject({
      id: null,
      error: { code: -32600, message: expect.stringContaining("exceeds") },
    });
    expect((await other.request("no/such", {})).response.error).toMatchObject({ code: -32601 });
    agent.update("still here");
    expect(texts([await client.takeJson()])).toEqual(["still here"]);
  });

  test("an over-long id closes the socket", async () => {
    const client = await Client.open(workspaceName());
    client.send(JSON.stringify({ jsonrpc: "2.0", id: "x".repeat(DEFAULT_LIMITS.idChars + 1), method: "a" }));
    expect((await client.closed).code).toBe(1008);
  });

  test("binary frames are ignored", async () => {
    const client = await Client.open(workspaceName());
    client.socket.send(new Uint8Array([1, 2, 3]));
    expect((await client.request("no/such", {})).response.error).toMatchObject({ code: -32601 });
  });

  test.each([
    ["session/prompt", {}, -32602],
    ["session/prompt", { sessionId: 5 }, -32602],
    ["session/prompt", { sessionId: "not-ours" }, -32002],
    ["session/new", {}, -32602],
    ["session/new", { cwd: 1 }, -32602],
    ["no/such", null, -32601],
  ])("%s with %j is refused", async (method, params, code) => {
    const client = await Client.open(workspaceName());
    expect((await client.request(method, params)).response.error).toMatchObject({ code });
  });

  test("a response nobody waits for goes nowhere", async () => {
    const { client, agent, sessionId } = await openSession();
    client.send('{"jsonrpc":"2.0","id":99,"result":{}}');
    client.send(`{"jsonrpc":"2.0","id":"${sessionId}:1","result":{}}`);
    client.send(`{"jsonrpc":"2.0","id":"${crypto.randomUUID()}:1","result":{}}`);
    client.notify("_mark", { sessionId });
    expect((await agent.line()).method).toBe("_mark");
  });
});

describe("connecting", () => {
  test.each([
    ["/acp", 401],
    ["/host/control", 401],
    [`/host/sessions/${crypto.randomUUID()}`, 401],
  ])("without a token to %s gets %i", async (path, status) => {
    const response = await exports.default.fetch(`https://edge.test${path}`, {
      headers: { Upgrade: "websocket" },
    });
    expect(response.status).toBe(status);
  });

  test("needs the scope of a host or a client, and the workspace the token names", async () => {
    const workspace = workspaceName();
    const client = await token({ workspace });
    const host = await token({ workspace, scopes: ["host"] });
    const status = async (path: string, bearer: string) => {
      const headers = { Upgrade: "websocket", Authorization: `Bearer ${bearer}` };
      return (await exports.default.fetch(`https://edge.test${path}`, { headers })).status;
    };
    expect(await status("/host/control", client)).toBe(403);
    expect(await status("/acp", host)).toBe(403);
    expect(await status("/acp?workspace=elsewhere", client)).toBe(404);
    expect(await status("/host/control?workspace=elsewhere", host)).toBe(404);
    expect((await get("/api/sessions", host)).status).toBe(403);
    expect((await get("/api/sessions", `${client}x`)).status).toBe(401);
    expect((await get("/api/workspaces/elsewhere", client)).status).toBe(404);
  });

  test("needs a WebSocket upgrade where the route says so", async () => {
    expect((await get("/host/control", await token({ workspace: "w", scopes: ["host"] }))).status).toBe(426);
  });
});

describe("a second client", () => {
  test("[I3] loads the conversation and goes on live, without a gap or a repetition", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const id = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "hello" }] });
    const request = await agent.line();
    agent.update("one");
    agent.update("two");
    await agent.durable();
    const second = await Client.open(workspace);
    const load = second.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
    agent.update("three");
    const { response, before } = await second.until(load);
    expect(response.result).toEqual({});
    agent.answer(request, { stopReason: "end_turn" });
    const got = [...before];
    while (!texts(got).join().endsWith("three")) got.push(await second.takeJson());
    // The replay merges chunks; live frames pass unchanged.
    expect(texts(got).join("")).toBe("onetwothree");
    expect(before[0]).toMatchObject({
      params: { sessionId, update: { sessionUpdate: "user_message_chunk", content: { text: "hello" } } },
    });
    await client.until(id);
  });

  test("resumes without a replay and gets the open requests of the agent", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    agent.update("old");
    agent.items('{"jsonrpc":"2.0","id":7,"method":"_ask","params":{"sessionId":"agent-session"}}');
    await client.takeJson();
    const asked = await client.takeJson();
    const second = await Client.open(workspace);
    const { before } = await second.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    expect(before).toEqual([]);
    expect(await second.takeJson()).toEqual(asked);
    second.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: "second" }));
    expect((await agent.line()).result).toBe("second");
  });

  test("sees the prompts of the first client", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const second = await Client.open(workspace);
    await second.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "typed" }] });
    await agent.line();
    expect(await second.takeJson()).toMatchObject({
      params: { update: { sessionUpdate: "user_message_chunk", content: { text: "typed" } } },
    });
  });

  test("gets the answer to a prompt even if it did not load the session first", async () => {
    const { agent, sessionId, workspace } = await openSession();
    const second = await Client.open(workspace);
    const id = second.call("session/prompt", { sessionId, prompt: [] });
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await second.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("[I7] is forgotten when it disconnects, and the turn goes on", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    client.call("session/prompt", { sessionId, prompt: [] });
    const request = await agent.line();
    client.socket.close();
    const readers = () =>
      runInDurableObject(
        sessionStub(sessionId),
        (_, state) => state.storage.sql.exec("SELECT connection FROM client").toArray().length,
      );
    await vi.waitUntil(async () => (await readers()) === 0);
    agent.update("nobody listens");
    agent.answer(request, { stopReason: "end_turn" });
    await agent.durable();
    const second = await Client.open(workspace);
    const { before } = await second.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(texts(before)).toEqual(["nobody listens"]);
  });
});

describe("a client that loads again", () => {
  test("gets its outstanding answers, then the replay, then live frames", async () => {
    const { client, agent, sessionId } = await openSession();
    const asked: number[] = [];
    for (let i = 0; i < 20; i += 1) {
      asked.push(client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: `${i}` }] }));
      const request = await agent.line();
      agent.update(`<${i}>`);
      agent.answer(request, { stopReason: "end_turn" });
      // The client loads twice while the answer is on its way.
      for (let k = 0; k < 3; k += 1)
        asked.push(client.call("session/load", { sessionId, cwd: "/", mcpServers: [] }));
    }
    const answered: unknown[] = [];
    let last = "";
    while (answered.length < asked.length || !last.endsWith("<19>")) {
      const message = await client.takeJson();
      if ("result" in message) answered.push(message.id);
      last = texts([message])[0] ?? last;
    }
    expect(new Set(answered)).toEqual(new Set(asked));
    expect(answered).toHaveLength(asked.length);
  });
});

describe("a host", () => {
  test("is refused with the reason when it speaks another link version", async () => {
    const workspace = workspaceName();
    const peer = new Peer(await dialHost(workspace, "/host/control"));
    peer.send(
      JSON.stringify({
        t: "hello",
        version: 99,
        name: "old",
        instance: "i",
        root: "/",
        agents: [],
        runs: [],
      }),
    );
    expect(await peer.takeJson()).toMatchObject({ t: "refused", reason: expect.stringContaining("99") });
    expect((await peer.closed).code).toBe(4426);
  });

  test("is closed when it sends nonsense", async () => {
    const peer = new Peer(await dialHost(workspaceName(), "/host/control"));
    peer.send("{");
    expect((await peer.closed).code).toBe(4400);
  });

  test("is shown in its workspace with the agents it offers", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const view = await (await get(`/api/workspaces/${workspace}`, await token({ workspace }))).json();
    expect(view).toMatchObject({
      id: workspace,
      hosts: [{ name: "h1", root: "/workspace" }],
      agents: [{ id: "scripted", name: "Scripted", default: true, error: null }],
    });
  });
});

test("a connection without a client says so to a session that still delivers to it", async () => {
  const page = { end: { attachment: 1, seq: 1 }, frames: ["{}"], namesOthers: true as const };
  const gone = connectionStub(crypto.randomUUID());
  expect(await gone.deliver(crypto.randomUUID(), page)).toBe("gone");
  expect(await gone.startReading(crypto.randomUUID())).toBeNull();
});
