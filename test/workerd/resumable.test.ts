import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type AttachmentOf, readAttachment } from "../../src/durable/attachments.ts";
import { type EventCursor, parseCursor } from "../../src/protocol/cursor.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { RESUMABLE } from "../../src/protocol/resumable-wire.ts";
import * as container from "../fixtures/dialects/container-data-model.ts";
import type { Json } from "../fixtures/json.ts";
import {
  events,
  get,
  holdUp,
  prompt,
  send,
  sessionStub,
  socketsOf,
  texts,
  workspaceName,
} from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { type Agent, updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { ALL_OF_A_CLIENT, type Claims, mint, token } from "./tokens.ts";

type Scene = { workspace: string; host: Host; client: Resumable; agent: Agent; sessionId: string };

async function openSession(claims?: Claims): Promise<Scene> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  const bearer = claims && (await mint({ workspaces: [workspace], ...claims }));
  const client = await Resumable.open(workspace, { bearer });
  return { workspace, host, client, ...(await another(client, host)) };
}

async function another(client: Resumable, host: Host): Promise<{ agent: Agent; sessionId: string }> {
  const opening = client.request("session/new", { cwd: "/", mcpServers: [] });
  const agent = await host.agent();
  await agent.openSession();
  const { sessionId } = (await opening).result as { sessionId: string };
  return { agent, sessionId };
}

const numbers = (count: number) => Array.from({ length: count }, (_, i) => String(i));

describe("a resumable client", () => {
  test("[I6] continues exactly where it was, whatever became of the socket and the objects", async () => {
    const { client, agent, sessionId } = await openSession();
    client.send([{ id: "p", method: "session/prompt", params: prompt(sessionId) }]);
    const asked = await agent.line();
    for (const text of numbers(60)) {
      agent.update(text);
      await agent.durable();
      if (Number(text) % 7 === 3) client.peer.socket.close(4000, "cut");
      if (Number(text) % 14 === 3) await evictDurableObject(sessionStub(sessionId)).catch(() => {});
      if (Number(text) % 21 === 3)
        await runInDurableObject(client.object, (_, state) => state.abort()).catch(() => {});
      if (Number(text) % 7 !== 5) continue;
      await client.dial();
      await client.until(() => texts(client.read).length > Number(text) - 4);
    }
    await client.dial();
    agent.answer(asked, { stopReason: "end_turn" });
    await client.until(() => client.answers("p").length > 0);
    expect(texts(client.read)).toEqual(numbers(60));
    expect(client.answers("p")).toHaveLength(1);
  });

  test("[I6] may send its frames again, and each counts once", async () => {
    const { host, client, agent, sessionId, workspace } = await openSession();
    const frames = [
      { id: "list", method: "session/list", params: {} },
      { id: "new", method: "session/new", params: { cwd: "/", mcpServers: [] } },
      { id: "p", method: "session/prompt", params: prompt(sessionId) },
    ];
    client.send(frames);
    const asked = await agent.line();
    await client.until(() => client.received === 5);
    // The object crashes before it has stored its state, and the client is cut off before it learns of that.
    await runInDurableObject(client.object, (_, state) => {
      for (const socket of state.getWebSockets()) socket.serializeAttachment(null);
      state.abort();
    }).catch(() => {});
    await client.dial();
    expect(client.received).toBeLessThan(5);
    client.send(frames, 3);
    await client.until(() => client.received === 5);
    agent.answer(asked, { stopReason: "end_turn" });
    await client.until(() => client.answers("p").length > 0);
    await (await host.agent()).openSession();
    await client.until(() => client.answers("new").length > 0);
    await client.request("session/list", {});
    expect(client.answers("list")).toHaveLength(1);
    expect(client.answers("new")).toHaveLength(1);
    const log = await events(workspace, sessionId);
    expect(log.filter(({ kind }) => kind === "turn.started")).toHaveLength(1);
  });

  test("[I3] is sent no more than a window while it does not read, and holds up nobody", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const other = await Client.open(workspace);
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const text = "x".repeat(100_000);
    const count = Math.ceil((3 * DEFAULT_LIMITS.resumeWindowChars) / text.length);
    for (let i = 0; i < count; i += 1) agent.items(updateText(`${i} ${text}`));
    const seen: Json[] = [];
    while (texts(seen).length < count) seen.push(await other.takeJson());
    const window = DEFAULT_LIMITS.resumeWindowChars + DEFAULT_LIMITS.deliverChars;
    expect((await attachmentOf(client)).chars).toBeLessThan(window + 2 * text.length);
    // The client gets the rest as it reads.
    await client.until(() => {
      client.acknowledge();
      return texts(client.read).length === count;
    });
    expect(texts(client.read)).toEqual(texts(seen));
  });

  test("gets no frame twice when its object wakes up", async () => {
    const { client } = await openSession();
    await client.request("session/list", {});
    await evictDurableObject(client.object);
    await client.request("session/list", {});
    expect(client.answers("r3")).toHaveLength(1);
    expect(client.answers("r4")).toHaveLength(1);
  });

  test("gets no answer before initialize, nor to nonsense", async () => {
    const workspace = workspaceName();
    const client = new Resumable(workspace);
    await client.dial();
    expect(await client.request("session/list", {})).toMatchObject({ error: { code: -32600 } });
    client.peer.send('{"t":"lines","first":2}\nnonsense\n[]');
    await client.until(() => client.read.length === 3);
    expect(client.read.slice(1)).toMatchObject([{ error: { code: -32700 } }, { error: { code: -32600 } }]);
    client.peer.send('{"t":"what"}');
    expect(await client.peer.closed).toMatchObject({ code: 4400 });
  });
});

describe("a resumable client loses nothing", () => {
  test("when many of the connection's own answers wait", async () => {
    setLimits({ deliverChars: 1000 });
    const { client } = await openSession();
    const ids = numbers(30).map((n) => `list-${n}`);
    const frames = ids.map((id) => ({ id, method: "session/list", params: {} }));
    client.send(frames);
    await client.until(() => client.answers("list-0").length > 0);
    client.read.splice(2);
    client.forgetOwn();
    await client.dial();
    client.send(frames, 3);
    await client.until(() => client.received === 32);
    await client.until(() => client.answers("list-29").length > 0);
    expect(client.read.map(({ id }) => id)).toEqual(["r1", "r2", ...ids]);
  });

  test("when its frames are not yet in a session", async () => {
    const { client, agent, sessionId } = await openSession();
    const letGo = await holdUp(sessionStub(sessionId));
    client.send([
      { id: "p", method: "session/prompt", params: prompt(sessionId) },
      { id: "list", method: "session/list", params: {} },
    ]);
    await client.until(() => client.answers("list").length > 0);
    await client.dial();
    expect(client.received).toBe(2);
    await letGo();
    await client.until(() => client.received === 4);
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(() => client.answers("p").length > 0);
  });

  test("when a page is on its way to a socket the client has left", async () => {
    const { client, agent, sessionId } = await openSession();
    const { attachment, seq } = parseCursor(client.cursors[sessionId] as string) as EventCursor;
    agent.update("one");
    await agent.durable();
    // The client comes back without a cursor for the session, which does not know that yet.
    const letGo = await holdUp(sessionStub(sessionId));
    delete client.cursors[sessionId];
    await client.dial();
    const after = { attachment, seq: seq + 1, part: 0 };
    const frames = [{ seq: seq + 2, part: null, isAnswer: false }];
    const marks = { kind: "in-turn", after, from: after, frames } as const;
    const page = { end: { attachment, seq: seq + 2 }, frames: [updateText("two", sessionId)], marks };
    expect(await client.object.deliver(sessionId, page)).toBe("later");
    await letGo();
    agent.update("two");
    await client.until(() => texts(client.read).includes("two"));
    expect(texts(client.read).slice(-2)).toEqual(["one", "two"]);
  });

  test("when it sends more requests than it reads answers", async () => {
    setLimits({ outboxMessages: 3 });
    const { client } = await openSession();
    const ask = (n: number) => ({ id: `list-${n}`, method: "session/list", params: {} });
    for (let n = 0; n < 8; n += 1) client.send([ask(n)], n + 3);
    expect(await client.peer.closed).toMatchObject({ code: 1013 });
    // Each reconnect delivers some more frames.
    for (let turn = 0; client.received < 10; turn += 1) {
      expect(turn).toBeLessThan(8);
      await client.dial();
      const { received } = client;
      if (received < 10) client.send([ask(received - 2)], received + 1);
      await client.until(() => client.received > received || received === 10);
    }
    await client.until(() => client.answers("list-7").length > 0);
    for (let n = 0; n < 8; n += 1) expect(client.answers(`list-${n}`)).toHaveLength(1);
  });
});

describe("the sessions of a resumable client", () => {
  test("fit on its socket, in the largest number and with the longest ids allowed", async () => {
    const client = await Resumable.open(workspaceName());
    const sessions = Array.from({ length: DEFAULT_LIMITS.sessionsPerConnection }, () => crypto.randomUUID());
    await runInDurableObject(client.object, (_, { storage }) => {
      for (const id of sessions) storage.sql.exec("INSERT INTO stream (id, attached) VALUES (?, 1)", id);
    });
    for (const id of sessions) client.cursors[id] = "100000000000000.999999999999999";
    await client.dial();
    await evictDurableObject(client.object);
    const { cursors } = await attachmentOf(client);
    expect(Object.keys(cursors)).toHaveLength(DEFAULT_LIMITS.sessionsPerConnection);
  });

  test("make room for others when they end", async () => {
    setLimits({ sessionsPerConnection: 2 });
    const { client, host, sessionId } = await openSession();
    const second = await another(client, host);
    const open = () => client.request("session/new", { cwd: "/", mcpServers: [] });
    expect(await open()).toMatchObject({ error: { message: expect.stringContaining("at most 2") } });
    await client.request("session/close", { sessionId });
    // The object may have to send the answer again.
    expect(await open()).toMatchObject({ error: {} });
    await expect
      .poll(async () => {
        client.acknowledge();
        await client.request("session/list", {});
        client.acknowledge();
        return runInDurableObject(sessionStub(sessionId), (session) => session.release(crypto.randomUUID()));
      })
      .toBe(true);
    client.acknowledge();
    const third = await another(client, host);
    expect(third.sessionId).not.toBe(second.sessionId);
    await client.request("session/delete", { sessionId: third.sessionId });
    const fourth = await another(client, host);
    fourth.agent.update("hello");
    await client.until(() => texts(client.read).includes("hello"));
    // A detached session can be attached again in the place of another one.
    await client.request("session/delete", { sessionId: fourth.sessionId });
    expect(await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] })).toHaveProperty(
      "result",
    );
  });
});

describe("a resumable connection", () => {
  test("serves an observer, even after it has returned", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const observer = await Resumable.open(workspace, { query: "&role=observer" });
    await observer.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    await observer.dial();
    expect(await observer.request("session/prompt", prompt(sessionId))).toHaveProperty("error");
    client.send([{ id: "p", method: "session/prompt", params: prompt(sessionId) }]);
    const asked = await agent.line();
    agent.update("seen");
    await observer.dial();
    await observer.until(() => texts(observer.read).includes("seen"));
    agent.answer(asked, { stopReason: "end_turn" });
    await client.until(() => client.answers("p").length > 0);
    expect(texts(observer.read).filter((text) => text === "seen")).toHaveLength(1);
  });

  test("serves a client of a dialect in its dialect, interrupted or not", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const { params } = JSON.parse(container.initialize) as { params: Json };
    const client = await Resumable.open(workspace, { params });
    const opening = client.request("session/new", { workspaceUri: "file:///path/to/repo", cwd: "/" });
    const agent = await host.agent();
    await agent.openSession();
    const { sessionId } = (await opening).result as { sessionId: string };
    client.send([
      {
        id: "p",
        method: "session/prompt",
        params: { sessionId, content: [{ type: "text", content: "go" }] },
      },
    ]);
    const asked = await agent.line();
    const from = client.read.length;
    for (const text of numbers(20)) {
      agent.update(text);
      await agent.durable();
      if (Number(text) % 5 === 4) await client.dial();
    }
    agent.answer(asked, { stopReason: "end_turn" });
    await client.until(() => client.answers("p").length > 0);
    const said = client.read.slice(from).filter(({ method }) => method === "session/update");
    const blocks = said.flatMap(
      ({ params }) => (params as { content?: { content: string }[] }).content ?? [],
    );
    expect(blocks.map(({ content }) => content)).toEqual(numbers(20));
  });
});

describe("a connection waiting for its client", () => {
  test("is unknown to anyone else, like one that never existed", async () => {
    const { client, workspace } = await openSession();
    const plain = await Client.open(workspace);
    expect((await client.upgrade("someone else")).status).toBe(404);
    expect((await client.upgrade("someone", crypto.randomUUID())).status).toBe(404);
    expect((await client.upgrade("someone", "no-uuid")).status).toBe(404);
    // The client may not use two transports at once.
    const posted = await exports.default.fetch("https://edge.test/acp", {
      method: "POST",
      headers: {
        Authorization: `Bearer ${await token({ workspace })}`,
        "Content-Type": "application/json",
        "Acp-Connection-Id": client.connection,
      },
      body: '{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}',
    });
    expect(posted.status).toBe(404);
    plain.socket.close();
  });

  test("is forgotten when its client says goodbye or stays away for long", async () => {
    for (const leave of ["goodbye", "expiry"]) {
      const { client, workspace, sessionId } = await openSession();
      client.peer.socket.close(leave === "goodbye" ? 1000 : 4000, leave);
      await client.peer.closed;
      if (leave === "expiry") {
        await runInDurableObject(client.object, (_, state) => {
          state.storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'idle'");
        });
        expect(await runDurableObjectAlarm(client.object)).toBe(true);
      }
      await expect.poll(async () => (await client.upgrade()).status).toBe(404);
      const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
      expect(await view.json()).toMatchObject({ clients: [] });
    }
  });

  test("has one socket: a new one replaces the old one", async () => {
    const { client } = await openSession();
    const { peer } = client;
    await client.dial();
    expect(await peer.closed).toMatchObject({ code: 4408 });
    await client.request("session/list", {});
  });
});

describe("the token of a resumable client", () => {
  const HOUR = 3_600_000;
  // The client is silent all that time, which this test ignores.
  beforeEach(() => setLimits({ resumeSilentMs: 24 * HOUR }));
  afterEach(() => vi.useRealTimers());

  /** Lets time pass and runs the connection's alarm, which would have run meanwhile. */
  async function pass(ms: number, client: Resumable): Promise<void> {
    vi.setSystemTime(Date.now() + ms);
    await runDurableObjectAlarm(client.object);
  }

  const warnings = (client: Resumable) =>
    client.read.filter(({ method }) => method === "_acp-edge/token_expiring");

  async function revoke(what: object): Promise<void> {
    const bearer = await mint({ scopes: ALL_OF_A_CLIENT, sub: "admin", workspaces: ["*"] });
    expect((await send("POST", "/api/revocations", bearer, what)).status).toBe(201);
  }

  test("ends its socket and not the connection, which goes on with another token in mid-turn", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client, agent, sessionId, workspace } = await openSession({ exp: HOUR / 1000 });
    client.send([{ id: "p", method: "session/prompt", params: prompt(sessionId) }]);
    const asked = await agent.line();
    for (const text of numbers(30)) agent.update(text);
    await client.until(() => texts(client.read).length > 10);
    await pass(HOUR - DEFAULT_LIMITS.tokenWarningMs, client);
    await client.until(() => warnings(client).length > 0);
    // Clocks may differ by a few seconds.
    await pass(DEFAULT_LIMITS.tokenWarningMs + 10_000, client);
    expect(await client.peer.closed).toMatchObject({ code: 4401, reason: "token expired" });
    expect((await client.upgrade()).status).toBe(401);
    for (const text of numbers(60).slice(30)) agent.update(text);
    agent.answer(asked, { stopReason: "end_turn" });
    await agent.durable();
    const { connection } = client;
    client.bearer = await mint({ workspaces: [workspace] });
    await client.dial();
    expect(client.connection).toBe(connection);
    await client.until(() => client.answers("p").length > 0);
    expect(texts(client.read)).toEqual(numbers(60));
    // The warning was about the previous token.
    expect(warnings(client)).toHaveLength(1);
    await pass(HOUR - DEFAULT_LIMITS.tokenWarningMs, client);
    await client.until(() => warnings(client).length > 1);
  });

  test("is worthless after it expires, even when the alarm is late", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client } = await openSession({ exp: HOUR / 1000 });
    vi.setSystemTime(Date.now() + HOUR);
    client.send([{ id: "late", method: "session/list", params: {} }]);
    expect((await client.peer.closed).code).toBe(4401);
    expect(client.answers("late")).toEqual([]);
  });

  test("can be renewed in place", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client, workspace } = await openSession({ exp: HOUR / 1000 });
    const newer = await mint({ workspaces: [workspace], exp: (2 * HOUR) / 1000 });
    expect(await client.request("_acp-edge/renew", { token: newer })).toHaveProperty("result.expiresAt");
    await pass(HOUR, client);
    expect(await client.request("session/list", {})).toHaveProperty("result");
  });

  test("gives its rights to a client that returns with it", async () => {
    const { client, workspace, sessionId } = await openSession({});
    const rights = async () => {
      const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
      return ((await view.json()) as { clients: { role: string }[] }).clients.map(({ role }) => role);
    };
    expect(await rights()).toEqual(["controller"]);
    client.bearer = await mint({ workspaces: [workspace], scopes: ["session:read"] });
    await client.dial();
    await expect.poll(rights).toEqual(["observer"]);
    expect(await client.request("session/prompt", prompt(sessionId))).toMatchObject({
      error: { code: -32003 },
    });
  });

  test.each(["jti", "subject"] as const)(
    "ends the connection for good when it is revoked by %s",
    async (kind) => {
      const [sub, jti] = [crypto.randomUUID(), crypto.randomUUID()];
      const { client, workspace, sessionId } = await openSession({ sub, jti });
      expect(await socketsOf(sub)).toEqual([client.connection]);
      await revoke(kind === "jti" ? { jti } : { subject: sub });
      expect(await client.peer.closed).toMatchObject({ code: 4401, reason: "token revoked" });
      expect((await client.upgrade()).status).toBe(401);
      client.bearer = await mint({ workspaces: [workspace], sub });
      expect((await client.upgrade()).status).toBe(kind === "jti" ? 404 : 401);
      const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
      expect(await view.json()).toMatchObject({ clients: [] });
    },
  );

  test("leaves no connection to return to when it is revoked while the client is away", async () => {
    const [sub, jti] = [crypto.randomUUID(), crypto.randomUUID()];
    const { client, workspace } = await openSession({ sub, jti });
    client.peer.socket.close(4000, "cut");
    expect(await socketsOf(sub)).toEqual([client.connection]);
    await revoke({ jti });
    client.bearer = await mint({ workspaces: [workspace], sub });
    expect((await client.upgrade()).status).toBe(404);
  });
});

/** The attachment of the client's socket. */
async function attachmentOf(client: Resumable): Promise<AttachmentOf<"resumable">> {
  return runInDurableObject(client.object, (_, state) => {
    const [socket] = state.getWebSockets(RESUMABLE);
    const attachment = socket && readAttachment(socket, "resumable");
    if (!attachment) throw new Error("The client has no socket");
    return attachment;
  });
}
