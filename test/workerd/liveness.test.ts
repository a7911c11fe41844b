import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { readAttachment } from "../../src/durable/attachments.ts";
import { objectName } from "../../src/durable/objects.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import * as container from "../fixtures/dialects/container-data-model.ts";
import * as webGateway from "../fixtures/dialects/web-gateway.ts";
import { events, get, type Opened, openSession, prompt, send, sessionStub, subjectStub } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { permissionRequest } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { mint, token } from "./tokens.ts";

const { socketIdleMs, pongMs, resumeSilentMs } = DEFAULT_LIMITS;
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => {
  vi.useRealTimers();
});

type Connected = { client: Client; id: string; object: DurableObjectStub };

async function connect(workspace: string, path = "/acp", sub = "someone"): Promise<Connected> {
  const bearer = await mint({ workspaces: [workspace], sub, exp: DAY / 1000 });
  const response = await exports.default.fetch(`https://edge.test${path}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  const client = new Client(response.webSocket);
  const id = response.headers.get("Acp-Connection-Id") as string;
  return { client, id, object: env.ACP_CONNECTION_DO.getByName(id) };
}

/** A client that is attached to a session and has read every message so far. */
async function attached({ workspace, sessionId }: Opened): Promise<Connected> {
  const connected = await connect(workspace);
  await connected.client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  await connected.client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  return connected;
}

/** Lets time pass and runs the object's alarm, which would have run meanwhile. */
async function pass(ms: number, { object }: Pick<Connected, "object">): Promise<void> {
  vi.setSystemTime(Date.now() + ms);
  await runDurableObjectAlarm(object);
}

/** Whether the object still has the socket; the client may learn of a close later. */
const isOpen = ({ object }: Pick<Connected, "object">) =>
  runInDurableObject(object, (_, state) =>
    state.getWebSockets().some(({ readyState }) => readyState === WebSocket.OPEN),
  );

async function present({ workspace, sessionId }: Opened): Promise<string[]> {
  const view = await (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
  return (view as { clients: { connection: string }[] }).clients.map(({ connection }) => connection);
}

/** The rows a connection's object still has. */
const leftOf = ({ object }: Pick<Connected, "object">) =>
  runInDurableObject(object, async (_, { storage }) => ({
    alarm: await storage.getAlarm(),
    tables: storage.sql.exec("SELECT name FROM sqlite_master WHERE name = 'deadline'").toArray(),
  }));

const isAsked = ({ object }: Connected) =>
  runInDurableObject(object, (_, state) => {
    const [socket] = state.getWebSockets();
    return (socket && readAttachment(socket, "client")?.askedAt) !== undefined;
  });

const PINGED = '"method":"_acp-edge/ping"';
const PONG = '{"jsonrpc":"2.0","id":"acp-edge/ping","result":{}}';

describe("a silent client", () => {
  test("is pinged, and stays as long as it answers anything", async () => {
    const opened = await openSession();
    const quiet = await attached(opened);
    quiet.client.answersPings = false;
    for (let day = 0; day < 3; day += 1) {
      await pass(socketIdleMs + MINUTE, quiet);
      expect(await quiet.client.take()).toContain(PINGED);
      quiet.client.send(PONG);
      await vi.waitFor(async () => expect(await isAsked(quiet)).toBe(false));
      await pass(pongMs, quiet);
      expect(await isOpen(quiet)).toBe(true);
    }
    opened.agent.update("still here?");
    expect(await quiet.client.take()).toContain("still here?");
    expect(await present(opened)).toContain(quiet.id);
  });

  test("is closed when it does not answer, and detached from its sessions", async () => {
    const opened = await openSession();
    const sub = crypto.randomUUID();
    const dead = await connect(opened.workspace, "/acp", sub);
    await dead.client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    const { sessionId } = opened;
    await dead.client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    dead.client.answersPings = false;
    expect(await present(opened)).toContain(dead.id);
    await pass(socketIdleMs + MINUTE, dead);
    expect(await isOpen(dead)).toBe(true);
    await pass(pongMs, dead);
    expect(await dead.client.closed).toEqual({ code: 1001, reason: "no answer" });
    // The client does not even answer the close frame.
    expect(await present(opened)).not.toContain(dead.id);
    expect(await leftOf(dead)).toEqual({ alarm: null, tables: [] });
    expect(await subjectStub(sub).countSockets()).toBe(0);
    // A later close event finds the client already detached.
    dead.client.socket.close(1000);
    await runInDurableObject(dead.object, () => {});
    expect(await leftOf(dead)).toEqual({ alarm: null, tables: [] });
  });

  test("is not pinged while it sends something now and then", async () => {
    const quiet = await attached(await openSession());
    quiet.client.answersPings = false;
    for (let turn = 0; turn < 4; turn += 1) {
      await pass(socketIdleMs - 1, quiet);
      expect((await quiet.client.request("session/list", {})).before).toEqual([]);
    }
    await pass(socketIdleMs + MINUTE, quiet);
    expect(await quiet.client.take()).toContain(PINGED);
  });

  test("is still noticed after its object was evicted", async () => {
    const opened = await openSession();
    const dead = await attached(opened);
    dead.client.answersPings = false;
    await evictDurableObject(dead.object);
    await pass(socketIdleMs + MINUTE, dead);
    expect(await dead.client.take()).toContain(PINGED);
    await evictDurableObject(dead.object);
    await pass(pongMs, dead);
    expect((await dead.client.closed).code).toBe(1001);
    expect(await present(opened)).not.toContain(dead.id);
  });

  test("is pinged whatever it was sent meanwhile", async () => {
    const opened = await openSession();
    const dead = await attached(opened);
    dead.client.answersPings = false;
    vi.setSystemTime(Date.now() + socketIdleMs);
    opened.agent.update("news");
    expect(await dead.client.take()).toContain("news");
    await pass(MINUTE, dead);
    expect(await dead.client.take()).toContain(PINGED);
    await pass(pongMs, dead);
    expect((await dead.client.closed).code).toBe(1001);
  });

  test("is detached when it does not answer the ping for its unread output, whatever else it sends", async () => {
    setLimits({ unreadChars: 1000 });
    const opened = await openSession();
    const dead = await attached(opened);
    dead.client.answersPings = false;
    opened.agent.update("x".repeat(1000));
    expect(await dead.client.take()).toContain("xxx");
    expect(await dead.client.take()).toContain(PINGED);
    await pass(pongMs - 1, dead);
    expect((await dead.client.request("session/list", {})).response.result).toBeDefined();
    expect(await isOpen(dead)).toBe(true);
    await evictDurableObject(dead.object);
    await pass(1, dead);
    expect(await dead.client.closed).toEqual({ code: 1001, reason: "no answer" });
    expect(await present(opened)).not.toContain(dead.id);
  });

  test("[I7] decides nothing by being detached: its turn and its permission request go on", async () => {
    const { workspace, agent, sessionId, client, host } = await openSession();
    const opened = { workspace, agent, sessionId, client, host };
    const dead = await attached(opened);
    dead.client.answersPings = false;
    client.socket.close(1000);
    dead.client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
    const turn = await agent.line();
    agent.items(permissionRequest(1));
    await agent.durable();
    const bearer = await token({ workspace });
    await pass(socketIdleMs + MINUTE, dead);
    await pass(pongMs, dead);
    expect((await dead.client.closed).code).toBe(1001);
    const log = await events(workspace, sessionId);
    const asked = log.find(({ kind }) => kind === "permission.requested") as { seq: number };
    const request = (asked as unknown as { payload: { request: number } }).payload.request;
    const answer = await send("POST", `/api/permissions/${sessionId}:${request}`, bearer, {
      optionId: "yes",
    });
    expect(answer.status).toBe(200);
    expect(await agent.line()).toMatchObject({ id: 1, result: { outcome: { optionId: "yes" } } });
    agent.answer(turn, { stopReason: "end_turn" });
    await agent.durable();
    const kinds = (await events(workspace, sessionId)).map(({ kind }) => kind);
    expect(kinds).toContain("turn.completed");
  });
});

describe("a client that cannot be pinged", () => {
  const FORMS = [
    ["the container data model", "/acp", container.initialize],
    ["the web gateway on /agent/ws", "/agent/ws", webGateway.initialize],
  ] as const;

  async function open(path: string, initialize: string) {
    const opened = await openSession();
    const connected = await connect(opened.workspace, path);
    const { client } = connected;
    client.send(initialize);
    await client.until((JSON.parse(initialize) as { id: unknown }).id);
    await client.request("session/resume", { sessionId: opened.sessionId, cwd: "/", mcpServers: [] });
    return { ...opened, ...connected, opened };
  }

  test.each(FORMS)("(%s) is detached when nothing has happened for long", async (_, path, initialize) => {
    const { opened, ...dead } = await open(path, initialize);
    await pass(socketIdleMs, dead);
    expect(await isOpen(dead)).toBe(true);
    await evictDurableObject(dead.object);
    await pass(MINUTE, dead);
    expect(await dead.client.closed).toEqual({ code: 1001, reason: "idle" });
    expect(await present(opened)).not.toContain(dead.id);
  });

  test.each(FORMS)("(%s) stays as long as something is sent to it", async (_, path, initialize) => {
    const { opened, ...quiet } = await open(path, initialize);
    await pass(socketIdleMs, quiet);
    opened.agent.update("news");
    await quiet.client.take();
    await pass(2 * MINUTE, quiet);
    expect(await isOpen(quiet)).toBe(true);
    await pass(socketIdleMs, quiet);
    expect((await quiet.client.closed).reason).toBe("idle");
  });

  test("[I9] stays as long as it pings, which wakes no object", async () => {
    // The platform records the real time of a ping, not the fake one.
    const now = Date.now();
    vi.setSystemTime(now - socketIdleMs - 2 * MINUTE);
    const { opened: _, ...quiet } = await open("/agent/ws", webGateway.initialize);
    quiet.client.send('{"type":"ping"}');
    expect(await quiet.client.takeJson()).toEqual({ type: "pong" });
    await pass(now - Date.now(), quiet);
    expect(await isOpen(quiet)).toBe(true);
    await pass(socketIdleMs + 2 * MINUTE, quiet);
    expect((await quiet.client.closed).reason).toBe("idle");
  });
});

describe("the socket of a resumable client", () => {
  async function open() {
    const opened = await openSession();
    const bearer = await mint({ workspaces: [opened.workspace], exp: DAY / 1000 });
    const client = await Resumable.open(opened.workspace, { bearer });
    await client.request("session/resume", { sessionId: opened.sessionId, cwd: "/", mcpServers: [] });
    return { ...opened, client, opened };
  }

  test("is closed without a heartbeat, and the connection stays", async () => {
    const { client, agent, opened } = await open();
    await evictDurableObject(client.object);
    await pass(resumeSilentMs - 1, client);
    expect(await isOpen(client)).toBe(true);
    await pass(1, client);
    expect(await client.peer.closed).toEqual({ code: 1001, reason: "no answer" });
    expect(await present(opened)).toContain(client.connection);
    agent.update("missed");
    await agent.durable();
    await client.dial();
    await client.until(() => JSON.stringify(client.read).includes("missed"));
    expect((await client.request("session/list", {})).result).toBeDefined();
  });

  test("stays open as long as its client sends something", async () => {
    const { client } = await open();
    for (let turn = 0; turn < 4; turn += 1) {
      await pass(resumeSilentMs - 1, client);
      client.acknowledge();
      expect((await client.request("session/list", {})).result).toBeDefined();
    }
    await pass(resumeSilentMs, client);
    expect((await client.peer.closed).code).toBe(1001);
  });

  test("[I9] stays open as long as its client pings, which wakes no object", async () => {
    const now = Date.now();
    vi.setSystemTime(now - resumeSilentMs);
    const { client } = await open();
    client.peer.send("ping");
    expect(await client.peer.take()).toBe("pong");
    await pass(now - Date.now(), client);
    expect(await isOpen(client)).toBe(true);
    await pass(resumeSilentMs + MINUTE, client);
    expect((await client.peer.closed).code).toBe(1001);
  });
});

describe("the socket of a session's host", () => {
  test("is missed as soon as a prompt arrives for a host that vanished, before the workspace looks", async () => {
    // The platform's own alarms never come: the time of the objects is a day ahead.
    vi.setSystemTime(Date.now() + DAY);
    const { sessionId, client, host } = await openSession();
    host.answersProbes = false;
    setLimits({ probeMs: 50 });
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.hostSilentMs + 1);
    client.call("session/prompt", prompt(sessionId));
    expect((await host.closed).code).toBe(4408);
  });

  test("is closed when the host vanishes, and the session goes on when the host is back", async () => {
    const { workspace, sessionId, agent, host } = await openSession();
    const bearer = await mint({ workspaces: [workspace], scopes: ["session:read", "workspace:admin"] });
    await send("PUT", `/api/workspaces/${workspace}`, bearer, { hostGraceMs: 1000 });
    host.answersProbes = false;
    setLimits({ probeMs: 50 });
    const object = env.WORKSPACE_STATE_DO.getByName(objectName("acme", workspace));
    await pass(DEFAULT_LIMITS.hostCheckMs + 1, { object });
    expect((await host.closed).code).toBe(4408);
    await pass(1000, { object });
    expect(await agent.link.closed).toEqual({ code: 4408, reason: "silent" });
    await agent.reconnect();
    agent.update("back");
    await agent.durable();
    const kinds = (await events(workspace, sessionId)).map(({ kind }) => kind);
    expect(kinds).toEqual(expect.arrayContaining(["runtime.paused", "runtime.reconnected"]));
    await runInDurableObject(sessionStub(sessionId), (_, state) => {
      const open = state.getWebSockets("host").filter((ws) => ws.readyState === WebSocket.OPEN);
      expect(open).toHaveLength(1);
    });
  });
});
