import { runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { connectionStub, prompt, texts, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { type EventReader, HttpPeer, reply, request } from "../peers/http-client.ts";
import { token } from "../tokens.ts";
import { LONG, newSession, openSession, permission, resultOf, UNKNOWN } from "./fixtures.ts";

// workerd notices that a reader has gone only when something is written to it, so keep-alive comments come often here.
beforeEach(() => setLimits({ keepAliveMs: 50, readerProbeMs: 300 }));

describe("an HTTP request for a stream", () => {
  test.each<[string, Record<string, string>, number, string]>([
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
  ])("is answered: GET %s", async (_, headers, status, text) => {
    const got = await reply(await request("GET", await token({ workspace: workspaceName() }), headers));
    expect(got).toEqual([status, text]);
  });

  test.each(["PUT", "PATCH", "OPTIONS", "HEAD"])(
    "is answered with 405 when its method is %s",
    async (method) => {
      const bearer = await token({ workspace: workspaceName() });
      expect((await request(method, bearer, { Accept: "text/event-stream" })).status).toBe(405);
    },
  );

  test("gets 409 while another reader has that stream", async () => {
    const { peer, own, agent, sessionId } = await openSession();
    const reading = own.next();
    expect(await reply(await peer.get())).toEqual([409, "Outbound stream already has an active receiver"]);
    const stream = await peer.stream(sessionId);
    expect(stream.response.headers.get("Content-Type")).toBe("text/event-stream");
    const readingToo = stream.next();
    expect((await peer.get(sessionId)).status).toBe(409);
    // The probed reader has missed nothing.
    await peer.call("no/such", {});
    expect((await reading)?.message).toMatchObject({ error: { code: -32601 } });
    agent.update("u");
    expect(texts([(await readingToo)?.message as Json])).toEqual(["u"]);
  });

  test("replaces a reader that has gone or takes nothing", async () => {
    setLimits({ keepAliveMs: 60_000 });
    const { peer, own, agent, sessionId } = await openSession();
    const first = await peer.stream(sessionId);
    agent.update("u0");
    expect(texts([await first.take()])).toEqual(["u0"]);
    await first.cancel();
    const second = await peer.stream(sessionId);
    agent.update("u1");
    expect(texts([await second.take()])).toEqual(["u1"]);
    // The second reader neither reads nor hangs up.
    const third = await peer.stream(sessionId);
    agent.update("u2");
    expect(texts([await third.take()])).toEqual(["u2"]);
    await own.cancel();
    const again = await peer.stream();
    await peer.call("no/such", {});
    expect(await again.take()).toMatchObject({ error: { code: -32601 } });
  });

  test("wins the stream alone when several readers want to replace one that has gone", async () => {
    const { peer, own } = await openSession();
    await own.cancel();
    const responses = await Promise.all([1, 2, 3].map(() => peer.get()));
    expect(responses.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
    for (const { body } of responses) await body?.cancel();
  });

  test("may name an unknown session but no over-long one", async () => {
    const peer = await HttpPeer.open(workspaceName());
    expect((await peer.get(UNKNOWN)).status).toBe(200);
    expect((await peer.get(LONG)).status).toBe(400);
  });

  test("ends all streams and the connection with DELETE, and the session goes on", async () => {
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

  test("finds nothing for another tenant, another user or another workspace", async () => {
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

  test("needs a token with a scope before anything else is checked", async () => {
    const workspace = workspaceName();
    for (const method of ["GET", "POST", "DELETE", "PUT"]) {
      expect((await request(method, "x")).status).toBe(401);
      expect((await request(method, await token({ workspace, scopes: ["host"] }))).status).toBe(403);
    }
  });

  test("[I12] leaves no trace when the connection is unknown", async () => {
    const peer = new HttpPeer(await token({ workspace: workspaceName() }), crypto.randomUUID(), {});
    expect([(await peer.post("{}")).status, (await peer.get()).status, (await peer.delete()).status]).toEqual(
      [404, 404, 404],
    );
    const tables = await runInDurableObject(connectionStub(peer.connection), (_, state) =>
      state.storage.sql
        .exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'")
        .toArray(),
    );
    expect(tables).toEqual([]);
  });
});

describe("the event streams of a connection", () => {
  test("[I2] carry a turn on the session's stream, verbatim and in order", async () => {
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

  test("keep messages until they are opened, even those before the answer to session/new", async () => {
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

  test("carry a load's replay on the session's stream, then its answer on the connection's", async () => {
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

  test("carry the answer to a load although nobody reads the replay, which waits", async () => {
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

  test("carry the answer to a load although its reader goes away during the replay", async () => {
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

  test("carry the answer to a resume and the agent's open requests on the session's stream", async () => {
    const { agent, sessionId, workspace } = await openSession();
    agent.items(permission(3));
    await agent.durable();
    const second = await HttpPeer.open(workspace);
    const stream = await second.stream(sessionId);
    const id = await second.call("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    expect((await stream.until(id)).length).toBe(1);
    expect(await stream.take()).toMatchObject({ method: "session/request_permission" });
  });

  test("keep two sessions of one connection apart", async () => {
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

  test("carry the answers to close, delete, cancel and unknown methods on the session's stream", async () => {
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

  test("send a comment now and then as a sign of life", async () => {
    const peer = await HttpPeer.open(workspaceName());
    const reader = ((await peer.get()).body as ReadableStream<Uint8Array>).getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    expect(await read()).toMatch(/^id: \S+\n\n$/);
    expect(await read()).toMatch(/^:/);
    await reader.cancel();
  });
});
