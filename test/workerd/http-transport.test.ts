import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { LIMITS } from "../../src/protocol/limits.ts";
import { type Agent, Client, Host, sessionStub, texts, token, updateText } from "./harness.ts";
import {
  type EventReader,
  HttpPeer,
  INITIALIZE,
  JSON_TYPE,
  type Json,
  reply,
  request,
  type StreamEvent,
} from "./http-peer.ts";
import { setLimits } from "./limits.ts";

const workspaceName = () => `w-${crypto.randomUUID()}`;
const UNKNOWN = crypto.randomUUID();
const LONG = "x".repeat(LIMITS.idChars + 1);
const connectionOf = (peer: HttpPeer) => env.ACP_CONNECTION_DO.getByName(peer.connection);
const sessionOf = (sessionId: string) => sessionStub(sessionId);

// Here a reader that hangs up is missed when something is written to it, if only that the stream is alive.
beforeEach(() => setLimits({ keepAliveMs: 50, readerProbeMs: 300 }));

type Opened = {
  peer: HttpPeer;
  own: EventReader;
  host: Host;
  agent: Agent;
  sessionId: string;
  workspace: string;
};

/** A client over HTTP with a session, its connection's stream open. */
async function openSession(): Promise<Opened> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  const peer = await HttpPeer.open(workspace);
  const own = await peer.stream();
  return { ...(await newSession(peer, own, host)), workspace };
}

function resultOf(events: StreamEvent[]): Json {
  return events.at(-1)?.message.result as Json;
}

async function newSession(peer: HttpPeer, own: EventReader, host: Host) {
  const id = await peer.call("session/new", { cwd: "/elsewhere", mcpServers: [] });
  const agent = await host.agent();
  await agent.openSession();
  const sessionId = resultOf(await own.until(id)).sessionId as string;
  return { peer, own, host, agent, sessionId };
}

/** Numbers below a limit, the same in every run. */
function lottery(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * limit);
  };
}

type ReaderAttachment = { stream: string; log: { place: { upTo: number } } | null };

/** How far the session's stream has been sent. */
function placeOf(peer: HttpPeer, sessionId: string): Promise<number> {
  return runInDurableObject(connectionOf(peer), (_, state) => {
    const readers = state.getWebSockets().map((ws) => ws.deserializeAttachment() as ReaderAttachment);
    return readers.find(({ stream }) => stream === sessionId)?.log?.place.upTo ?? 0;
  });
}

/** A stream whose last reader has just gone. */
function freeStream(peer: HttpPeer, session?: string): Promise<EventReader> {
  return vi.waitFor(() => peer.stream(session));
}

const prompt = (sessionId: string) => ({ sessionId, prompt: [{ type: "text", text: "hello" }] });
const permission = (id: number) =>
  JSON.stringify({
    jsonrpc: "2.0",
    id,
    method: "session/request_permission",
    params: { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options: [] },
  });

describe("POST", () => {
  it("initialize makes a connection: 200, the answer, and the connection's id", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const response = await request("POST", await token({ workspace }), JSON_TYPE, INITIALIZE);
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(response.headers.get("Acp-Connection-Id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(await response.json()).toMatchObject({
      jsonrpc: "2.0",
      id: "i",
      result: { protocolVersion: 1, agentInfo: { name: "scripted" } },
    });
  });

  it("initialize that is refused: 200 with the error, and no other request is served", async () => {
    const bearer = await token({ workspace: workspaceName() });
    const response = await request("POST", bearer, JSON_TYPE, INITIALIZE.replace(":1}", ':"x"}'));
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ id: "i", error: { code: -32602 } });
    const peer = new HttpPeer(bearer, response.headers.get("Acp-Connection-Id") as string, {});
    await peer.call("session/new", { cwd: "/" });
    expect(await (await peer.stream()).take()).toMatchObject({ id: 0, error: { code: -32600 } });
  });

  const missing = [400, "Missing Acp-Session-Id"] as const;
  const mismatched = [400, "Mismatched Acp-Session-Id"] as const;
  const rpc = (method: string, params: Json = {}, rest: Json = { id: 1 }) =>
    JSON.stringify({ jsonrpc: "2.0", ...rest, method, params });

  describe("without a connection", () => {
    it.each<[string, Record<string, string>, string, number, string | undefined]>([
      ["initialize on a connection", { "Acp-Connection-Id": UNKNOWN }, INITIALIZE, 400, undefined],
      [
        "initialize with id null",
        {},
        rpc("initialize", { protocolVersion: 1 }, { id: null }),
        400,
        undefined,
      ],
      ["initialize without id", {}, rpc("initialize", {}, {}), 400, "Missing Acp-Connection-Id"],
      ["initialize with a long id", {}, rpc("initialize", {}, { id: LONG }), 400, undefined],
      ["no content type", { "Content-Type": "" }, INITIALIZE, 415, "Unsupported Media Type"],
      ["another content type", { "Content-Type": "text/plain" }, INITIALIZE, 415, "Unsupported Media Type"],
      ["a content type like JSON", { "Content-Type": "application/json-rpc" }, INITIALIZE, 415, undefined],
      [
        "parameters and case of the type",
        { "Content-Type": "Application/JSON; charset=utf-8" },
        INITIALIZE,
        200,
        undefined,
      ],
      ["invalid JSON", {}, '{"a":', 400, "Invalid JSON"],
      ["nothing", {}, "", 400, "Invalid JSON"],
      ["a number", {}, "7", 400, "Invalid JSON-RPC message"],
      ["a string", {}, '"x"', 400, "Invalid JSON-RPC message"],
      ["null", {}, "null", 400, "Invalid JSON-RPC message"],
      ["no connection", {}, rpc("session/new"), 400, "Missing Acp-Connection-Id"],
      [
        "an unknown connection",
        { "Acp-Connection-Id": UNKNOWN },
        rpc("session/new"),
        404,
        "Unknown Acp-Connection-Id",
      ],
      [
        "a connection that is no UUID",
        { "Acp-Connection-Id": "x" },
        rpc("session/new"),
        404,
        "Unknown Acp-Connection-Id",
      ],
      ["too large", {}, `"${"x".repeat(LIMITS.frameChars)}"`, 413, "Payload Too Large"],
    ])("%s", async (_, headers, body, status, text) => {
      const bearer = await token({ workspace: workspaceName() });
      const got = await reply(await request("POST", bearer, { ...JSON_TYPE, ...headers }, body));
      expect(got).toEqual([status, text ?? expect.any(String)]);
    });

    it.each(["[]", `[${INITIALIZE}]`])("batch %s: 400 with a JSON-RPC error", async (body) => {
      const response = await request("POST", await token({ workspace: workspaceName() }), JSON_TYPE, body);
      expect(response.status).toBe(400);
      expect(response.headers.get("Content-Type")).toBe("application/json");
      expect(await response.json()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32600 } });
    });
  });

  describe("on a connection", () => {
    const scoped = "cancel close delete fork load prompt resume set_config_option set_mode set_model";
    it.each(scoped.split(" ").map((name) => `session/${name}`))(
      "%s needs the session header",
      async (method) => {
        const peer = await HttpPeer.open(workspaceName());
        expect(await reply(await peer.post(rpc(method)))).toEqual(missing);
        expect(await reply(await peer.post(rpc(method, {}, {})))).toEqual(missing);
        expect(await reply(await peer.post(rpc(method, { sessionId: "a" })))).toEqual(missing);
        expect(await reply(await peer.post(rpc(method, { sessionId: "a" }), "b"))).toEqual(mismatched);
      },
    );

    it.each<[string, string, string | undefined, readonly [number, string | undefined]]>([
      ["any sessionId without the header", rpc("_x", { sessionId: "a" }), undefined, missing],
      ["any sessionId unlike the header", rpc("_x", { sessionId: "a" }, {}), "b", mismatched],
      ["a long session header", rpc("_x"), LONG, [400, undefined]],
      ["a long sessionId", rpc("_x", { sessionId: LONG }), LONG, [400, undefined]],
      ["a long request id", rpc("_x", {}, { id: LONG }), undefined, [400, undefined]],
      ["a request", rpc("_x"), undefined, [202, ""]],
      ["a notification", rpc("_x", {}, {}), undefined, [202, ""]],
      [
        "$/cancel_request without the header",
        rpc("$/cancel_request", { requestId: 1 }, {}),
        undefined,
        [202, ""],
      ],
      ["a response nobody waits for", '{"jsonrpc":"2.0","id":99,"result":{}}', undefined, [202, ""]],
      [
        "a response to a session not ours",
        `{"jsonrpc":"2.0","id":"${UNKNOWN}:3","result":{}}`,
        undefined,
        [202, ""],
      ],
      ["a malformed object", "{}", undefined, [202, ""]],
      ["an unknown session", rpc("session/prompt", { sessionId: "a" }), "a", [202, ""]],
    ])("%s", async (_, body, session, [status, text]) => {
      const peer = await HttpPeer.open(workspaceName());
      expect(await reply(await peer.post(body, session))).toEqual([status, text ?? expect.any(String)]);
    });

    it("initialize again: 400", async () => {
      const peer = await HttpPeer.open(workspaceName());
      const got = await reply(await peer.post(INITIALIZE));
      expect(got).toEqual([400, "Initialize not allowed on existing connection"]);
    });

    it("a malformed object is answered with id null on the connection's stream", async () => {
      const peer = await HttpPeer.open(workspaceName());
      await peer.post("{}");
      await peer.post('{"jsonrpc":"2.0","id":4}', "some-session");
      const own = await peer.stream();
      for (let i = 0; i < 2; i += 1)
        expect(await own.take()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32600 } });
    });

    it("a request without a session is answered on the connection's stream, else on the session's", async () => {
      const peer = await HttpPeer.open(workspaceName());
      await peer.call("_nothing", {});
      expect(await (await peer.stream()).take()).toMatchObject({ id: 0, error: { code: -32601 } });
      await peer.call("session/prompt", prompt("not-ours"));
      expect(await (await peer.stream("not-ours")).take()).toMatchObject({ id: 1, error: { code: -32002 } });
    });

    it("a response to an agent's request needs the header of its session", async () => {
      const { peer, agent, sessionId } = await openSession();
      const stream = await peer.stream(sessionId);
      agent.items(permission(5));
      const { id } = await stream.take();
      const answer = JSON.stringify({ jsonrpc: "2.0", id, result: { outcome: { outcome: "cancelled" } } });
      expect(await reply(await peer.post(answer))).toEqual(missing);
      expect(await reply(await peer.post(answer, UNKNOWN))).toEqual(mismatched);
      expect(await reply(await peer.post(answer, sessionId))).toEqual([202, ""]);
      expect(await agent.line()).toMatchObject({ id: 5, result: { outcome: { outcome: "cancelled" } } });
    });
  });
});

describe("GET and other methods", () => {
  it.each<[string, Record<string, string>, number, string]>([
    ["without Accept", { "Acp-Connection-Id": UNKNOWN }, 406, "Not Acceptable"],
    ["for JSON", { "Acp-Connection-Id": UNKNOWN, Accept: "application/json" }, 406, "Not Acceptable"],
    ["without a connection", { Accept: "text/event-stream" }, 400, "Missing Acp-Connection-Id"],
    [
      "of an unknown one",
      { Accept: "text/event-stream", "Acp-Connection-Id": UNKNOWN },
      404,
      "Unknown Acp-Connection-Id",
    ],
    [
      "of nonsense",
      { Accept: "Text/Event-Stream, */*", "Acp-Connection-Id": "x" },
      404,
      "Unknown Acp-Connection-Id",
    ],
  ])("GET %s", async (_, headers, status, text) => {
    const got = await reply(await request("GET", await token({ workspace: workspaceName() }), headers));
    expect(got).toEqual([status, text]);
  });

  it.each(["PUT", "PATCH", "OPTIONS", "HEAD"])("%s: 405", async (method) => {
    const bearer = await token({ workspace: workspaceName() });
    expect((await request(method, bearer, { Accept: "text/event-stream" })).status).toBe(405);
  });

  it("a second reader of the same stream gets 409, of another one its own", async () => {
    const { peer, own, agent, sessionId } = await openSession();
    const reading = own.next();
    expect(await reply(await peer.get())).toEqual([409, "Outbound stream already has an active receiver"]);
    const stream = await peer.stream(sessionId);
    expect(stream.response.headers.get("Content-Type")).toBe("text/event-stream");
    const readingToo = stream.next();
    expect((await peer.get(sessionId)).status).toBe(409);
    // Who was asked whether it is there has missed nothing.
    await peer.call("_x", {});
    expect((await reading)?.message).toMatchObject({ error: { code: -32601 } });
    agent.update("u");
    expect(texts([(await readingToo)?.message as Json])).toEqual(["u"]);
  });

  it("a reader that has gone, or takes nothing, is replaced at once", async () => {
    setLimits({ keepAliveMs: 60_000 });
    const { peer, own, agent, sessionId } = await openSession();
    const first = await peer.stream(sessionId);
    agent.update("u0");
    expect(texts([await first.take()])).toEqual(["u0"]);
    await first.cancel();
    const second = await peer.stream(sessionId);
    agent.update("u1");
    expect(texts([await second.take()])).toEqual(["u1"]);
    // Nobody reads the second one now, and it has not hung up either.
    const third = await peer.stream(sessionId);
    agent.update("u2");
    expect(texts([await third.take()])).toEqual(["u2"]);
    await own.cancel();
    const again = await peer.stream();
    await peer.call("_x", {});
    expect(await again.take()).toMatchObject({ error: { code: -32601 } });
  });

  it("of several readers that come for one that has gone, one gets the stream", async () => {
    const { peer, own } = await openSession();
    await own.cancel();
    const responses = await Promise.all([1, 2, 3].map(() => peer.get()));
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    for (const { body } of responses) await body?.cancel();
  });

  it("the session of a stream may be unknown, but not its name too long", async () => {
    const peer = await HttpPeer.open(workspaceName());
    expect((await peer.get(UNKNOWN)).status).toBe(200);
    expect((await peer.get(LONG)).status).toBe(400);
  });

  it("DELETE ends all streams; afterwards the connection is unknown, and the session goes on", async () => {
    const { peer, own, agent, sessionId, workspace } = await openSession();
    const stream = await peer.stream(sessionId);
    await peer.call("session/prompt", prompt(sessionId));
    const turn = await agent.line();
    expect(await reply(await request("DELETE", peer.bearer))).toEqual([400, "Missing Acp-Connection-Id"]);
    expect(await reply(await peer.delete())).toEqual([202, ""]);
    expect(await own.next()).toBeUndefined();
    expect(await stream.next()).toBeUndefined();
    expect((await peer.delete()).status).toBe(404);
    expect((await peer.get()).status).toBe(404);
    expect((await peer.post("{}")).status).toBe(404);
    agent.update("still here");
    agent.answer(turn, { stopReason: "end_turn" });
    await agent.durable();
    const other = await Client.open(workspace);
    const { before } = await other.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(texts(before)).toEqual(["still here"]);
  });

  it("is for who opened it: another tenant, another user and another workspace find nothing", async () => {
    const workspace = workspaceName();
    const { connection } = await HttpPeer.open(workspace);
    for (const claims of [
      { workspace, tenant: "evil" },
      { workspace, subject: "else" },
      { workspace: "elsewhere" },
    ]) {
      const stranger = new HttpPeer(await token(claims), connection, {});
      expect((await stranger.post("{}")).status).toBe(404);
      expect((await stranger.get()).status).toBe(404);
      expect((await stranger.delete()).status).toBe(404);
    }
  });

  it("needs a token, and one with a scope, before anything else", async () => {
    const workspace = workspaceName();
    for (const method of ["GET", "POST", "DELETE", "PUT"]) {
      expect((await request(method, "x")).status).toBe(401);
      expect((await request(method, await token({ workspace, scopes: ["host"] }))).status).toBe(403);
    }
  });

  it("asking for an unknown connection leaves no trace", async () => {
    const peer = new HttpPeer(await token({ workspace: workspaceName() }), crypto.randomUUID(), {});
    expect([(await peer.post("{}")).status, (await peer.get()).status, (await peer.delete()).status]).toEqual(
      [404, 404, 404],
    );
    const tables = await runInDurableObject(connectionOf(peer), (_, state) =>
      state.storage.sql
        .exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'")
        .toArray(),
    );
    expect(tables).toEqual([]);
  });
});

describe("WebSocket", () => {
  const first = async (text: string) => {
    const client = await Client.raw(workspaceName());
    client.send(text);
    return client;
  };

  it.each([
    ["a request", '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}', 1002],
    ["a notification", '{"jsonrpc":"2.0","method":"session/cancel"}', 1002],
    ["initialize with id null", INITIALIZE.replace('"i"', "null"), 1002],
    ["an over-long id", `{"jsonrpc":"2.0","id":"${LONG}","method":"a"}`, 1008],
  ])("%s before initialize closes it", async (_, text, code) => {
    expect((await (await first(text)).closed).code).toBe(code);
  });

  it.each([
    ["bad JSON", "{", -32700],
    ["a batch", "[]", -32600],
    ["no message", "{}", -32600],
    ["a primitive", "7", -32600],
  ])("%s is answered with id null, and the socket stays", async (_, text, code) => {
    const client = await first(text);
    expect(await client.takeJson()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code } });
    client.send('{"jsonrpc":"2.0","id":99,"result":{}}');
    client.socket.send(new Uint8Array([1]));
    client.send(INITIALIZE);
    expect(await client.takeJson()).toMatchObject({ id: "i", result: { protocolVersion: 1 } });
    client.send(INITIALIZE);
    expect(await client.takeJson()).toMatchObject({ id: "i", error: { code: -32600 } });
  });

  it("a connection over it is none over HTTP", async () => {
    const bearer = await token({ workspace: workspaceName() });
    const upgraded = await request("GET", bearer, { Upgrade: "websocket" });
    expect(upgraded.status).toBe(101);
    upgraded.webSocket?.accept();
    const peer = new HttpPeer(bearer, upgraded.headers.get("Acp-Connection-Id") as string, {});
    expect((await peer.get()).status).toBe(404);
    upgraded.webSocket?.close();
  });
});

describe("streams", () => {
  it("a turn: updates and the response on the session's stream, verbatim and in order", async () => {
    const { peer, agent, sessionId } = await openSession();
    const stream = await peer.stream(sessionId);
    const id = await peer.call("session/prompt", prompt(sessionId));
    const turn = await agent.line();
    for (const text of ["one", "two", "three"]) agent.update(text);
    agent.answer(turn, { stopReason: "end_turn" });
    const events = await stream.until(id);
    expect(texts(events.map(({ message }) => message))).toEqual(["one", "two", "three"]);
    expect(events.at(-1)?.message).toMatchObject({ id, result: { stopReason: "end_turn" } });
    expect(new Set(events.map((event) => event.id)).size).toBe(events.length);
  });

  it("messages wait until their stream is opened, also those before the answer to session/new", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const peer = await HttpPeer.open(workspace);
    const id = await peer.call("session/new", { cwd: "/", mcpServers: [] });
    const agent = await host.agent();
    const opening = await agent.line();
    agent.update("early");
    agent.answer(opening, { sessionId: "agent-session" });
    agent.update("late");
    await agent.durable();
    const sessionId = resultOf(await (await peer.stream()).until(id)).sessionId as string;
    const stream = await peer.stream(sessionId);
    expect(texts([await stream.take(), await stream.take()])).toEqual(["early", "late"]);
  });

  it("load: the replay on the session's stream, then the answer on the connection's", async () => {
    const { agent, sessionId, workspace } = await openSession();
    for (const text of ["a", "b", "c"]) agent.update(text);
    await agent.durable();
    const second = await HttpPeer.open(workspace);
    const own = await second.stream();
    const stream = await second.stream(sessionId);
    const id = await second.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(texts([await stream.take()])).toEqual(["abc"]);
    expect((await own.until(id)).at(-1)?.message.result).toEqual({});
    agent.update("d");
    expect(texts([await stream.take()])).toEqual(["d"]);
  });

  it("load is answered even if nobody reads the session's stream, and the replay waits there", async () => {
    const { agent, sessionId, workspace } = await openSession();
    agent.update("a");
    await agent.durable();
    const second = await HttpPeer.open(workspace);
    const own = await second.stream();
    const id = await second.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect((await own.until(id)).length).toBe(1);
    const bad = { sessionId, cwd: "/", mcpServers: [], _meta: { "acp-edge/after": -1 } };
    const again = await second.call("session/load", bad);
    expect((await own.until(again)).at(-1)?.message).toMatchObject({ error: { code: -32602 } });
    const stream = await second.stream(sessionId);
    expect(texts([await stream.take()])).toEqual(["a"]);
    agent.update("b");
    expect(texts([await stream.take()])).toEqual(["b"]);
  });

  it("load is answered when its reader goes away during the replay", async () => {
    setLimits({ deliverChars: 1000, replayChunkChars: 100 });
    const { agent, sessionId, workspace } = await openSession();
    for (let i = 0; i < 50; i += 1) agent.update("x".repeat(200));
    await agent.durable();
    const second = await HttpPeer.open(workspace);
    const own = await second.stream();
    const stream = await second.stream(sessionId);
    const id = await second.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
    await stream.take();
    await stream.cancel();
    expect((await own.until(id)).at(-1)?.message.result).toEqual({});
  });

  it("resume is answered on the session's stream, and what the agent asks is offered there", async () => {
    const { agent, sessionId, workspace } = await openSession();
    agent.items(permission(3));
    await agent.durable();
    const second = await HttpPeer.open(workspace);
    const stream = await second.stream(sessionId);
    const id = await second.call("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    expect((await stream.until(id)).length).toBe(1);
    expect(await stream.take()).toMatchObject({ method: "session/request_permission" });
  });

  it("two sessions on one connection keep to their streams", async () => {
    const a = await openSession();
    const b = await newSession(a.peer, a.own, a.host);
    const streams = [await a.peer.stream(a.sessionId), await a.peer.stream(b.sessionId)];
    for (let i = 0; i < 20; i += 1) {
      a.agent.update(`a${i}`);
      b.agent.update(`b${i}`);
    }
    for (const [at, name] of ["a", "b"].entries()) {
      const got: Json[] = [];
      for (let i = 0; i < 20; i += 1) got.push(await (streams[at] as EventReader).take());
      expect(texts(got)).toEqual(Array.from({ length: 20 }, (_, i) => `${name}${i}`));
    }
  });

  it("close, delete, cancel and unknown methods of a session are answered on its stream", async () => {
    const { peer, agent, sessionId } = await openSession();
    const stream = await peer.stream(sessionId);
    const turn = await peer.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    expect(
      (
        await peer.post(
          JSON.stringify({ jsonrpc: "2.0", method: "session/cancel", params: { sessionId } }),
          sessionId,
        )
      ).status,
    ).toBe(202);
    expect((await agent.line()).method).toBe("session/cancel");
    agent.answer(request, { stopReason: "cancelled" });
    await stream.until(turn);
    const closing = await peer.call("session/close", { sessionId });
    expect((await stream.until(closing)).at(-1)?.message.result).toEqual({});
    const deleting = await peer.call("session/delete", { sessionId });
    expect((await stream.until(deleting)).at(-1)?.message.result).toEqual({});
  });

  it("a comment says now and then that the stream is alive", async () => {
    const peer = await HttpPeer.open(workspaceName());
    const reader = ((await peer.get()).body as ReadableStream<Uint8Array>).getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toMatch(/^:/);
    await reader.cancel();
  });
});

describe("Last-Event-ID", () => {
  /** Everything a session's stream has, and the ids, read in one go. */
  async function whole(reader: EventReader, count: number) {
    const events = [];
    for (let i = 0; i < count; i += 1) events.push((await reader.next())!);
    return events;
  }

  it.each([["kept awake"], ["evicted in between"]])("resumes exactly from any event, %s", async (how) => {
    const { peer, agent, sessionId, workspace } = await openSession();
    // A prompt of several blocks is several messages of one event for those who did not type it.
    const blocks = ["p1", "p2", "p3"].map((text) => ({ type: "text", text }));
    await peer.call("session/prompt", { sessionId, prompt: blocks });
    const turn = await agent.line();
    for (let i = 0; i < 5; i += 1) agent.update(`u${i}`);
    agent.items(permission(8), permission(9));
    await agent.durable();

    const reader = await HttpPeer.open(workspace);
    const own = await reader.stream();
    let stream = await reader.stream(sessionId);
    const id = await reader.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
    // Three blocks and the joined text; two offers and four updates.
    const all = await whole(stream, 4);
    await own.until(id);
    for (let i = 5; i < 9; i += 1) agent.update(`u${i}`);
    agent.answer(turn, { stopReason: "end_turn" });
    all.push(...(await whole(stream, 6)));
    expect(texts(all.map(({ message }) => message)).join("")).toBe("u0u1u2u3u4u5u6u7u8");
    for (let from = 0; from < all.length - 1; from += 1) {
      // Without hanging up: who knows the last event takes the stream over.
      if (from % 2 === 0) await stream.cancel();
      if (how !== "kept awake") {
        await evictDurableObject(connectionOf(reader));
        await evictDurableObject(sessionOf(sessionId));
      }
      stream = await reader.stream(sessionId, all[from]?.id);
      expect(await whole(stream, all.length - 1 - from)).toEqual(all.slice(from + 1));
    }
    agent.update("end");
    expect(texts([await stream.take()])).toEqual(["end"]);
  });

  it("resumes within a merged replay, whatever the pages", async () => {
    setLimits({ deliverChars: 700, replayChunkChars: 150 });
    const { agent, sessionId, workspace } = await openSession();
    const said = Array.from({ length: 60 }, (_, i) => `${String(i).padStart(3, "0")}${"x".repeat(i % 40)} `);
    agent.items(...said.map((text) => updateText(text)));
    await agent.durable();
    const reader = await HttpPeer.open(workspace);
    await reader.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
    let got = "";
    let last: string | undefined;
    while (got.length < said.join("").length) {
      const stream = await reader.stream(sessionId, last);
      const event = (await stream.next())!;
      got += texts([event.message]).join("");
      last = event.id;
      setLimits({ deliverChars: 300 + (got.length % 500) });
      if (got.length % 3 === 0) await evictDurableObject(connectionOf(reader));
    }
    expect(got).toBe(said.join(""));
  });

  it("resumes the connection's stream exactly, and repeats nothing without an id", async () => {
    const peer = await HttpPeer.open(workspaceName());
    for (let i = 0; i < 5; i += 1) await peer.call("_x", {});
    let stream = await peer.stream();
    const all = await whole(stream, 5);
    expect(all.map(({ message }) => message.id)).toEqual([0, 1, 2, 3, 4]);
    for (let from = 0; from < 4; from += 1) {
      await evictDurableObject(connectionOf(peer));
      stream = await peer.stream(undefined, all[from]?.id);
      expect(await whole(stream, 4 - from)).toEqual(all.slice(from + 1));
    }
    await stream.cancel();
    await peer.call("_x", {});
    expect(await (await freeStream(peer)).take()).toMatchObject({ id: 5 });
  });

  it("that is nonsense gets 400, and one whose successors are no longer kept 410", async () => {
    const peer = await HttpPeer.open(workspaceName());
    expect((await peer.get(undefined, "x")).status).toBe(400);
    setLimits({ outboxMessages: 3 });
    const stream = await peer.stream();
    const events = [];
    for (let i = 0; i < 6; i += 1) {
      await peer.call("_x", {});
      events.push((await stream.next())!);
    }
    expect((await peer.get(undefined, events[0]?.id)).status).toBe(410);
    expect(await whole(await peer.stream(undefined, events[2]?.id), 3)).toEqual(events.slice(3));
  });

  it("counts what is in the log and what is not, each for itself", async () => {
    const { peer, agent, sessionId } = await openSession();
    let stream = await peer.stream(sessionId);
    const all = [];
    for (let i = 0; i < 4; i += 1) {
      agent.update(`u${i}`);
      all.push(...(await whole(stream, 1)));
      // The connection itself refuses a fork without a directory.
      await peer.call("session/fork", { sessionId });
      all.push(...(await whole(stream, 1)));
    }
    for (const [from, { id }] of all.slice(0, -1).entries()) {
      stream = await peer.stream(sessionId, id);
      const rest = (await whole(stream, all.length - 1 - from)).map(({ message }) => message);
      const expected = all.slice(from + 1).map(({ message }) => message);
      expect(texts(rest)).toEqual(texts(expected));
      expect(rest.filter(({ error }) => error)).toEqual(expected.filter(({ error }) => error));
    }
  });

  it("resumes exactly when the connection's object was killed", async () => {
    const { peer, agent, sessionId } = await openSession();
    let last: string | undefined;
    const got: Json[] = [];
    for (let round = 0; round < 4; round += 1) {
      const stream = await vi.waitFor(() => peer.stream(sessionId, last));
      for (let i = 0; i < 5; i += 1) agent.update(`${round}.${i}`);
      // Of the five it sees three before the object dies.
      while (got.length < (round + 1) * 3) {
        const [event] = await whole(stream, 1);
        got.push(event?.message as Json);
        last = event?.id;
      }
      await runInDurableObject(connectionOf(peer), (_, state) => state.abort("killed")).catch(() => {});
    }
    const stream = await vi.waitFor(() => peer.stream(sessionId, last));
    got.push(...(await whole(stream, 8)).map(({ message }) => message));
    const expected = [0, 1, 2, 3].flatMap((round) => [0, 1, 2, 3, 4].map((i) => `${round}.${i}`));
    expect(texts(got)).toEqual(expected);
  });

  it("goes on without it where the last reader was, also after an eviction", async () => {
    const { peer, agent, sessionId } = await openSession();
    for (let round = 0; round < 3; round += 1) {
      const stream = await freeStream(peer, sessionId);
      agent.update(`u${round}`);
      expect(texts([await stream.take()])).toEqual([`u${round}`]);
      await stream.cancel();
      await evictDurableObject(connectionOf(peer));
    }
  });
});

describe("loading again", () => {
  const again = (sessionId: string) => ({ sessionId, cwd: "/", mcpServers: [] });
  const vendor = (sessionId: string) => ({ sessionId });

  /** Reads on to a note of the agent's that is sent now. */
  async function drain(stream: EventReader, agent: Agent): Promise<Json[]> {
    const name = crypto.randomUUID();
    agent.items(JSON.stringify({ jsonrpc: "2.0", method: "_mark", params: { name } }));
    const got: Json[] = [];
    for (;;) {
      const message = await stream.take();
      if ((message.params as Json | undefined)?.name === name) return got;
      got.push(message);
    }
  }

  const answersIn = (messages: Json[]) => messages.filter(({ method }) => method === undefined);

  it.each([
    ["session/load", "whose stream was never read"],
    ["session/load", "whose stream was read before"],
    ["session/resume", "whose stream was never read"],
    ["session/resume", "whose stream was read before"],
  ])("by %s a session %s leaves no answer behind", async (method, how) => {
    const { peer, own, agent, sessionId } = await openSession();
    if (how.endsWith("before")) {
      const reader = await peer.stream(sessionId);
      agent.update("u0");
      await reader.take();
      await reader.cancel();
    }
    const turn = await peer.call("session/prompt", prompt(sessionId));
    agent.update("u1");
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await agent.durable();
    const reload = await peer.call(method, again(sessionId));
    await evictDurableObject(sessionOf(sessionId));
    const stream = await freeStream(peer, sessionId);
    const got = await drain(stream, agent);
    const ids = answersIn(got).map(({ id }) => id);
    if (method === "session/load") {
      expect(ids).toEqual([turn]);
      expect((await own.until(reload)).length).toBe(1);
      expect(texts(got).join("").endsWith("u1")).toBe(true);
    } else {
      expect(ids).toEqual([turn, reload]);
      expect(texts(got)).toContain("u1");
    }
  });

  it("a reader that comes back with an event of before gets the answers since then, once", async () => {
    const { peer, own, agent, sessionId } = await openSession();
    let stream = await peer.stream(sessionId);
    agent.update("u0");
    const { id: last } = (await stream.next())!;
    const turn = await peer.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    // It is sent, and lost on the way.
    await vi.waitUntil(async () => (await placeOf(peer, sessionId)) > 0);
    const loads = [];
    for (let i = 0; i < 3; i += 1) loads.push(await peer.call("session/load", again(sessionId)));
    stream = await peer.stream(sessionId, last);
    const got = await drain(stream, agent);
    expect(answersIn(got).map(({ id }) => id)).toEqual([turn]);
    for (const id of loads) expect((await own.until(id)).length).toBe(1);
  });

  it.each([3, 11, 29])("at random, and each request is answered once (%s)", async (seed) => {
    setLimits({ deliverChars: 1500, replayChunkChars: 60 });
    const { peer, own, agent, sessionId } = await openSession();
    const random = lottery(seed);
    const asked: number[] = [];
    const got: Json[] = [];
    const last: Record<string, string> = {};
    const streams: Record<string, EventReader> = { "": own };
    const opened = async (name: string) => {
      const reader = streams[name] ?? (await peer.stream(name || undefined, last[name]));
      streams[name] = reader;
      return reader;
    };
    const read = async (name: string) => {
      const event = (await (await opened(name)).next())!;
      last[name] = event.id;
      got.push(event.message);
    };
    for (let step = 0; step < 60; step += 1) {
      switch (random(7)) {
        case 0:
          asked.push(await peer.call("session/load", again(sessionId)));
          break;
        case 1:
          asked.push(await peer.call("session/resume", again(sessionId)));
          break;
        case 2:
          asked.push(await peer.call("_vendor", vendor(sessionId)));
          agent.answer(await agent.line(), {});
          break;
        case 3:
          for (let i = 0; i < 5; i += 1) agent.update(`${step}.${i} ${"x".repeat(random(80))}`);
          await agent.durable();
          break;
        case 4:
          if (!last[sessionId]) break;
          await streams[sessionId]?.cancel();
          delete streams[sessionId];
          break;
        case 5:
          for (let left = 1 + random(3); left > 0; left -= 1) {
            agent.update(`n${step}`);
            await read(sessionId);
          }
          break;
        default:
          // Right after the last time it is not there to be evicted.
          await evictDurableObject(random(2) === 0 ? connectionOf(peer) : sessionOf(sessionId)).catch(
            () => {},
          );
      }
    }
    got.push(...(await drain(await opened(sessionId), agent)));
    const here = new Set(answersIn(got).map(({ id }) => id));
    while (here.size < asked.length) {
      await read("");
      here.add(got.at(-1)?.id);
    }
    expect(
      answersIn(got)
        .map(({ id }) => id as number)
        .sort((a, b) => a - b),
    ).toEqual(asked);
  });
});

describe("a client that does not read", () => {
  it("has its session's messages in the log alone, and gets one page at a time when it does", async () => {
    setLimits({ deliverChars: 2000 });
    const { peer, agent, sessionId, workspace } = await openSession();
    const live = await Client.open(workspace);
    await live.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const stream = await peer.stream(sessionId);
    const said = Array.from({ length: 200 }, (_, i) => `u${i}`);
    for (const text of said) agent.update(text);
    // It holds up nobody.
    const seen: Json[] = [];
    while (seen.length < said.length) seen.push(await live.takeJson());
    const outbox = await runInDurableObject(
      connectionOf(peer),
      (_, state) => state.storage.sql.exec("SELECT n FROM outbox WHERE stream <> ''").toArray().length,
    );
    expect(outbox).toBe(0);
    // A page is on its way to it.
    expect(await placeOf(peer, sessionId)).toBeLessThan(30);
    const got: Json[] = [];
    while (got.length < said.length) got.push(await stream.take());
    expect(texts(got)).toEqual(said);
  });

  it("is told to read before it may ask for more", async () => {
    setLimits({ outboxMessages: 3 });
    const peer = await HttpPeer.open(workspaceName());
    for (let i = 0; i < 3; i += 1) await peer.call("_x", {});
    const more = '{"jsonrpc":"2.0","id":"more","method":"_x"}';
    expect((await peer.post(more)).status).toBe(429);
    const own = await peer.stream();
    for (let i = 0; i < 3; i += 1) await own.take();
    expect((await peer.post(more)).status).toBe(202);
    expect(await own.take()).toMatchObject({ id: "more" });
  });

  it("an answer larger than a row waits in pieces", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const peer = await HttpPeer.open(workspace);
    const id = await peer.call("session/new", { cwd: "/", mcpServers: [] });
    const agent = await host.agent();
    const _meta = { big: "é".repeat(3_000_000) };
    agent.answer(await agent.line(), { sessionId: "agent-session", _meta });
    const [answer] = await (await peer.stream()).until(id);
    expect(answer?.message.result).toMatchObject({ _meta });
  });

  it("is forgotten after a while, unless it reads or writes", async () => {
    const { peer, own, sessionId } = await openSession();
    const check = async () => {
      await runInDurableObject(connectionOf(peer), (_, state) => {
        state.storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'idle'");
      });
      await runDurableObjectAlarm(connectionOf(peer));
    };
    await check();
    expect((await peer.post("{}")).status).toBe(202);
    await own.cancel();
    await vi.waitUntil(async () => {
      const stub = connectionOf(peer);
      return (await runInDurableObject(stub, (_, state) => state.getWebSockets().length)) === 0;
    });
    await check();
    expect((await peer.post("{}")).status).toBe(202);
    await runInDurableObject(connectionOf(peer), (_, state) => {
      state.storage.sql.exec("UPDATE connection SET seen = ?", Date.now() - LIMITS.connectionIdleMs - 1);
    });
    await check();
    expect((await peer.post("{}")).status).toBe(404);
    const readers = await runInDurableObject(sessionOf(sessionId), (_, state) =>
      state.storage.sql.exec("SELECT connection FROM client").toArray(),
    );
    expect(readers).toEqual([]);
  });
});

describe("sharing a session", () => {
  it("readers that hang up, come back and are evicted at random all end with the same messages", async () => {
    setLimits({ deliverChars: 3000 });
    const { agent, sessionId, workspace } = await openSession();
    const said = Array.from({ length: 300 }, (_, i) => `u${i}`);
    const random = lottery(7);
    const follow = async () => {
      const peer = await HttpPeer.open(workspace);
      await peer.call("session/resume", { sessionId, cwd: "/", mcpServers: [] });
      return async () => {
        const got: Json[] = [];
        let last: string | undefined;
        while (texts(got).length < said.length) {
          const stream = await peer.stream(sessionId, last);
          for (let left = random(40); left > 0 && texts(got).length < said.length; left -= 1) {
            const event = await stream.next();
            if (!event) break;
            got.push(event.message);
            last = event.id;
          }
          if (random(2) === 0) await stream.cancel();
          // One that is evicted by another reader at this moment cannot be evicted.
          if (random(4) === 0) await evictDurableObject(connectionOf(peer)).catch(() => {});
          if (random(8) === 0) await evictDurableObject(sessionOf(sessionId)).catch(() => {});
        }
        await peer.delete();
        return texts(got);
      };
    };
    const followers = await Promise.all(Array.from({ length: 4 }, follow));
    const reading = followers.map((read) => read());
    for (const text of said) {
      agent.update(text);
      if (random(10) === 0) await agent.durable();
    }
    for (const got of await Promise.all(reading)) expect(got).toEqual(said);
  });

  it("a client over HTTP and one over a WebSocket see the same, and the first answer counts", async () => {
    const { peer, agent, sessionId, workspace } = await openSession();
    const socket = await Client.open(workspace);
    await socket.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const stream = await peer.stream(sessionId);
    const id = await peer.call("session/prompt", prompt(sessionId));
    const turn = await agent.line();
    expect(await socket.takeJson()).toMatchObject({
      params: { update: { sessionUpdate: "user_message_chunk" } },
    });
    agent.update("both");
    agent.items(permission(4));
    expect(await stream.take()).toEqual(await socket.takeJson());
    const asked = await socket.takeJson();
    expect(await stream.take()).toEqual(asked);
    socket.send(
      JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { outcome: { outcome: "cancelled" } } }),
    );
    expect(await agent.line()).toMatchObject({ id: 4 });
    agent.answer(turn, { stopReason: "end_turn" });
    await stream.until(id);
  });
});
