import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { packTar } from "modern-tar";
import { afterEach, describe, expect, it, vi } from "vitest";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { Allowance, Quota } from "../../src/protocol/rpc.ts";
import { limitOf } from "../../src/tenant/allowance.ts";
import * as seed000 from "../fixtures/dialects/container-data-model.ts";
import * as seed002 from "../fixtures/dialects/web-gateway.ts";
import {
  Client,
  eventsText,
  get,
  holdUp,
  openSession,
  permissionRequest,
  sessionStub,
  token,
} from "./harness.ts";
import { HttpPeer, INITIALIZE, JSON_TYPE, request } from "./http-peer.ts";
import { setLimits } from "./limits.ts";
import { Resumable } from "./resumable-peer.ts";
import { type Claims, CONTROLLER, mint } from "./tokens.ts";

const HOUR = 3_600_000;

afterEach(() => {
  vi.useRealTimers();
});

/** A user of a tenant of their own, so that nobody else is counted. */
async function user(claims: Claims = {}) {
  const of = { tenant: `t-${crypto.randomUUID()}`, sub: "ann", workspaces: ["w"], exp: 100_000, ...claims };
  const bearer = await mint(of);
  return { ...of, bearer, tenantObject: env.TENANT_DO.getByName(of.tenant) };
}
type User = Awaited<ReturnType<typeof user>>;

async function connect({ bearer }: User, query = "", path = "/acp") {
  const response = await exports.default.fetch(`https://edge.test${path}${query}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  const client = new Client(response.webSocket);
  const id = response.headers.get("Acp-Connection-Id") as string;
  return { client, object: env.ACP_CONNECTION_DO.getByName(id) };
}

async function open(someone: User, query = "") {
  const opened = await connect(someone, query);
  await opened.client.request("initialize", { protocolVersion: 1 });
  return opened;
}

/** A session that is not there: who hears that has been let through. */
const NOWHERE = crypto.randomUUID();
const prompt = (text = "go", sessionId = NOWHERE) => ({ sessionId, prompt: [{ type: "text", text }] });
const codeOf = (response: Record<string, unknown>) => (response.error as { code: number }).code;
const TAKEN = -32002;
const REFUSED = -32004;

/** Sends that many prompts at once; how many were let through. */
async function prompts(client: Client, count: number): Promise<number> {
  for (let n = 0; n < count; n += 1) client.call("session/prompt", prompt());
  const codes: number[] = [];
  // A refusal may overtake what a session has to say.
  while (codes.length < count) codes.push(codeOf(await client.takeJson()));
  expect(codes.every((code) => code === TAKEN || code === REFUSED)).toBe(true);
  return codes.filter((code) => code === TAKEN).length;
}

/** What the tenant has given away. */
function given({ tenantObject, sub }: User, quota: Quota, subject = sub): Promise<number> {
  return runInDurableObject(
    tenantObject,
    (_, { storage }) =>
      storage.sql
        .exec<{ given: number }>("SELECT given FROM quota WHERE subject = ? AND quota = ?", subject, quota)
        .toArray()[0]?.given ?? 0,
  );
}

/** A message of exactly that length, which asks for nothing. */
function notification(chars: number, params: object = {}): string {
  const text = (pad: string) =>
    JSON.stringify({ jsonrpc: "2.0", method: "_note", params: { ...params, pad } });
  return text("x".repeat(chars - text("").length));
}

/** A request of exactly that length. */
function asking(chars: number, id: number | string): string {
  const text = (pad: string) => JSON.stringify({ jsonrpc: "2.0", id, method: "_ask", params: { pad } });
  return text("x".repeat(chars - text("").length));
}

/** What a client on a plain socket may still send without asking. */
function held(object: DurableObjectStub): Promise<number> {
  return runInDurableObject(object, (_, state) => {
    const [socket] = state.getWebSockets();
    const { allowance } = (socket?.deserializeAttachment() ?? {}) as { allowance?: Allowance };
    return allowance?.left.chars ?? 0;
  });
}

const startOfHour = () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Math.floor(Date.now() / HOUR) * HOUR + 1000);
};

describe("prompts of an hour", () => {
  it("are exactly as many as allowed on one connection, and the next one is told when to come back", async () => {
    setLimits({ promptsPerHour: 250 });
    const { client } = await open(await user());
    expect(await prompts(client, 260)).toBe(250);
    const { response } = await client.request("session/prompt", prompt());
    expect(response.error).toMatchObject({
      code: REFUSED,
      message: "One user may send 250 prompts an hour",
      data: { retryAfterMs: expect.any(Number) },
    });
    expect((await client.request("session/list", {})).response).toHaveProperty("result");
  });

  it("are never more on several connections at once, and hardly fewer", async () => {
    setLimits({ promptsPerHour: 500 });
    const someone = await user();
    const clients = await Promise.all([1, 2, 3, 4].map(async () => (await open(someone)).client));
    const taken = await Promise.all(clients.map((client) => prompts(client, 160)));
    const all = taken.reduce((sum, n) => sum + n, 0);
    expect(all).toBeLessThanOrEqual(500);
    expect(all).toBeGreaterThan(490);
    expect(await given(someone, "prompts")).toBe(500);
  });

  it("that are refused reach no session", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const someone = await user({ tenant: "acme", sub: crypto.randomUUID(), workspaces: [workspace] });
    setLimits({ promptsPerHour: 1 });
    const { client: other } = await open(someone);
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const first = other.call("session/prompt", prompt("first", sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await other.until(first)).response.result).toEqual({ stopReason: "end_turn" });
    const { response } = await other.request("session/prompt", prompt("second", sessionId));
    expect(codeOf(response)).toBe(REFUSED);
    expect(await eventsText(workspace, sessionId)).not.toContain("second");
    // Nobody else notices.
    setLimits({ promptsPerHour: 10_000 });
    const turn = client.call("session/prompt", prompt("mine", sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "end_turn" });
  });

  it("stay counted when the objects of the connection and of the tenant forget everything", async () => {
    setLimits({ promptsPerHour: 500 });
    const someone = await user();
    const { client, object } = await open(someone);
    let taken = 0;
    for (let round = 0; round < 12; round += 1) {
      taken += await prompts(client, 50);
      await evictDurableObject(object);
      await evictDurableObject(someone.tenantObject);
    }
    expect(taken).toBe(500);
  });

  it("that a connection did not use are there for others when it ends", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const first = await open(someone);
    expect(await prompts(first.client, 1)).toBe(1);
    expect(await given(someone, "prompts")).toBeGreaterThan(1);
    first.client.socket.close(1000);
    await expect.poll(() => given(someone, "prompts")).toBe(1);
    const { client } = await open(someone);
    expect(await prompts(client, 1010)).toBe(999);
  });

  it("are given back only once by a connection that ends while it waits for more", async () => {
    setLimits({ charsPerHour: 640_000 });
    const someone = await user();
    const { client, object } = await open(someone);
    const before = (await given(someone, "chars")) - (await held(object));
    const chars = (await held(object)) + 1000;
    const release = await holdUp(someone.tenantObject);
    client.send(asking(chars, 7));
    // Now it has got that, and waits for the tenant.
    for (let turn = 0; turn < 3; turn += 1) await held(object);
    client.socket.close(1000);
    await client.closed;
    await release();
    await expect.poll(() => given(someone, "chars")).toBe(before + chars);
  });

  it("need no word of the tenant as long as the allowance lasts, nor to be refused again and again", async () => {
    startOfHour();
    setLimits({ promptsPerHour: 400 });
    const someone = await user();
    const { client } = await open(someone);
    expect(await prompts(client, 1)).toBe(1);
    const release = await holdUp(someone.tenantObject);
    expect(await prompts(client, 3)).toBe(3);
    await release();
    expect(await prompts(client, 400)).toBe(396);
    const again = await holdUp(someone.tenantObject);
    expect(await prompts(client, 20)).toBe(0);
    await again();
  });

  it("begin anew with the next hour", async () => {
    startOfHour();
    setLimits({ promptsPerHour: 20 });
    const someone = await user();
    const { client } = await open(someone);
    expect(await prompts(client, 25)).toBe(20);
    vi.setSystemTime(Date.now() + HOUR - 2000);
    expect(await prompts(client, 1)).toBe(0);
    const { response } = await client.request("session/prompt", prompt());
    const { retryAfterMs } = (response.error as { data: { retryAfterMs: number } }).data;
    vi.setSystemTime(Date.now() + retryAfterMs);
    expect(await prompts(client, 25)).toBe(20);
    expect(await given(someone, "prompts")).toBe(20);
  });

  it("of the last hour are not given back in the next", async () => {
    startOfHour();
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const [old, other] = [await open(someone), await open(someone)];
    expect(await prompts(old.client, 1)).toBe(1);
    vi.setSystemTime(Date.now() + HOUR);
    expect(await prompts(other.client, 5)).toBe(5);
    const before = await given(someone, "prompts");
    old.client.socket.close(1000);
    await expect.poll(() => someone.tenantObject.socketsOf("ann")).toBe(1);
    expect(await given(someone, "prompts")).toBe(before);
  });

  it("are each user's own, whatever the token, and an observer's count too", async () => {
    setLimits({ promptsPerHour: 3 });
    const ann = await user();
    const bob = await user({ tenant: ann.tenant, sub: "bob" });
    const { client } = await open(ann);
    expect(await prompts(client, 4)).toBe(3);
    const renewed = await mint({ tenant: ann.tenant, sub: "ann", workspaces: ["w"], exp: 200_000 });
    const { response } = await client.request("_acp-edge/renew", { token: renewed });
    expect(response).toHaveProperty("result");
    expect(await prompts(client, 1)).toBe(0);
    expect(await prompts((await open(bob)).client, 4)).toBe(3);
    const watcher = await user({ scopes: ["session:read"] });
    expect(await prompts((await open(watcher)).client, 4)).toBe(3);
  });

  it("of a tenant that has counted only sessions so far are counted, and its sessions stay so", async () => {
    setLimits({ sessionsPerHour: 5 });
    const someone = await user();
    await runInDurableObject(someone.tenantObject, (_, { storage }) => {
      storage.sql.exec(
        `CREATE TABLE opening (
           subject TEXT NOT NULL, hour INTEGER NOT NULL, sessions INTEGER NOT NULL, PRIMARY KEY (subject, hour)
         )`,
      );
      const hour = Math.floor(Date.now() / HOUR);
      storage.sql.exec("INSERT INTO opening VALUES ('ann', ?, 4)", hour);
    });
    await evictDurableObject(someone.tenantObject);
    expect(await someone.tenantObject.countOpening("ann")).toBe(true);
    expect(await someone.tenantObject.countOpening("ann")).toBe(false);
    expect(await someone.tenantObject.countOpening("bob")).toBe(true);
    expect(await prompts((await open(someone)).client, 1)).toBe(1);
  });
});

describe("characters of an hour", () => {
  it("are counted to the last one", async () => {
    setLimits({ charsPerHour: 64_000 });
    const someone = await user();
    const { client } = await connect(someone);
    const rest = limitOf("chars") - INITIALIZE.length;
    client.send(INITIALIZE);
    await client.until("i");
    client.send(asking(rest - 1000, 1));
    expect(codeOf((await client.until(1)).response)).toBe(-32601);
    client.send(asking(1001, 2));
    const { response } = await client.until(2);
    expect(response.error).toMatchObject({
      code: REFUSED,
      message: "One user may send 64000 characters an hour",
      data: { retryAfterMs: expect.any(Number) },
    });
    client.send(asking(1000, 3));
    expect(codeOf((await client.until(3)).response)).toBe(-32601);
    client.send(asking(100, 4));
    expect(codeOf((await client.until(4)).response)).toBe(REFUSED);
    expect(await given(someone, "chars")).toBe(limitOf("chars"));
  });

  it("include what is no message at all", async () => {
    setLimits({ charsPerHour: 64_000 });
    const someone = await user();
    const { client } = await open(someone);
    client.send("x".repeat(50_000));
    expect(await client.takeJson()).toMatchObject({ error: { code: -32700 } });
    client.send("x".repeat(20_000));
    expect(await client.closed).toEqual({ code: 1008, reason: "quota exceeded" });
  });

  it("keep a reserve for what cancels or answers, and no more than that", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const turn = client.call("session/prompt", prompt("go", sessionId));
    const asked = await agent.line();
    setLimits({ charsPerHour: 64_000 });
    const sub = crypto.randomUUID();
    const someone = await user({ tenant: "acme", sub, workspaces: [workspace] });
    const { client: mine, object } = await open(someone);
    await mine.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    agent.items(permissionRequest(1));
    let question = await mine.takeJson();
    while (question.method !== "session/request_permission") question = await mine.takeJson();
    // All that is left, and one more.
    const used = await given(someone, "chars", sub);
    const left = await held(object);
    mine.send(asking(limitOf("chars") - used + left, 1));
    expect(codeOf((await mine.until(1)).response)).toBe(-32601);
    mine.send(asking(100, 2));
    expect(codeOf((await mine.until(2)).response)).toBe(REFUSED);
    const outcome = { outcome: "selected", optionId: "yes" };
    mine.send(JSON.stringify({ jsonrpc: "2.0", id: question.id, result: { outcome } }));
    expect(await agent.line()).toMatchObject({ id: 1, result: { outcome } });
    mine.notify("session/cancel", { sessionId });
    expect(await agent.line()).toMatchObject({ method: "session/cancel" });
    agent.answer(asked, { stopReason: "cancelled" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "cancelled" });
    // The reserve is a thousand characters: it has an end as well.
    for (let i = 0; i < 5; i += 1) mine.send(notification(200, { sessionId }));
    expect(await mine.closed).toEqual({ code: 1008, reason: "quota exceeded" });
    expect(await given(someone, "reserve", sub)).toBeLessThanOrEqual(limitOf("reserve"));
  });

  it("keep nothing in reserve for what is long", async () => {
    setLimits({ charsPerHour: 640_000 });
    const { client } = await open(await user());
    client.send(asking(limitOf("chars") - 5000, 1));
    await client.until(1);
    client.send(notification(LIMITS.smallChars + 1000));
    expect(await client.closed).toEqual({ code: 1008, reason: "quota exceeded" });
  });
});

describe("over HTTP", () => {
  it("a request is answered with the error, and anything else refused before it is taken", async () => {
    setLimits({ promptsPerHour: 2, charsPerHour: 64_000, smallChars: 100 });
    const someone = await user();
    const response = await request("POST", someone.bearer, JSON_TYPE, INITIALIZE);
    const id = response.headers.get("Acp-Connection-Id") as string;
    const peer = new HttpPeer(someone.bearer, id, {});
    const stream = await peer.stream(NOWHERE);
    const own = await peer.stream();
    const codes: unknown[] = [];
    for (let n = 0; n < 3; n += 1) {
      const asked = await peer.call("session/prompt", prompt());
      codes.push(
        codeOf(((await stream.until(asked)).at(-1) as { message: Record<string, unknown> }).message),
      );
    }
    expect(codes).toEqual([TAKEN, TAKEN, REFUSED]);
    expect((await peer.post(asking(50_000, "a"))).status).toBe(202);
    expect((await own.take()).error).toMatchObject({ code: -32601 });
    const refused = await peer.post(notification(20_000));
    expect([refused.status, await refused.text()]).toEqual([
      429,
      "One user may send 64000 characters an hour",
    ]);
    expect(Number(refused.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(Number(refused.headers.get("Retry-After"))).toBeLessThanOrEqual(3600);
    await evictDurableObject(env.ACP_CONNECTION_DO.getByName(id));
    expect((await peer.post(asking(20_000, "b"))).status).toBe(202);
    expect((await own.take()).error).toMatchObject({ code: REFUSED });
    await Promise.all([stream.cancel(), own.cancel()]);
    await peer.delete();
  });

  it("what is left is given back with the connection", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const response = await request("POST", someone.bearer, JSON_TYPE, INITIALIZE);
    const peer = new HttpPeer(someone.bearer, response.headers.get("Acp-Connection-Id") as string, {});
    await peer.call("session/prompt", prompt());
    expect(await given(someone, "prompts")).toBeGreaterThan(1);
    await peer.delete();
    expect(await given(someone, "prompts")).toBe(1);
    expect(await given(someone, "chars")).toBeLessThan(1000);
  });
});

describe("a resumable client", () => {
  const open = ({ bearer }: User) => Resumable.open("w", { bearer });
  const crash = (client: Resumable) =>
    runInDurableObject(client.object, (_, state) => state.abort()).catch(() => {});
  const cut = async (client: Resumable) => {
    client.peer.socket.close(4000, "cut");
    await client.peer.closed;
  };

  let nextId = 0;
  /** Sends that many prompts in one message; how many were let through. */
  const prompts = async (client: Resumable, count: number) => {
    const ids = Array.from({ length: count }, () => `p${nextId++}`);
    client.send(ids.map((id) => ({ id, method: "session/prompt", params: prompt() })));
    const mine = new Set<unknown>(ids);
    const answers = () => client.read.filter(({ id }) => mine.has(id));
    await client.until(() => answers().length === count);
    return answers().filter((answer) => codeOf(answer) === TAKEN).length;
  };

  it("has its prompts counted over all its sockets", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const client = await open(someone);
    let taken = await prompts(client, 1);
    for (let round = 0; round < 4; round += 1) {
      await cut(client);
      await client.dial();
      taken += await prompts(client, 3);
      await evictDurableObject(client.object);
      taken += await prompts(client, 3);
      await client.dial();
      taken += await prompts(client, 3);
    }
    expect(await prompts(client, 1000)).toBe(1000 - taken);
  });

  it("has less than it might when its object has crashed, and never more", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const client = await open(someone);
    let taken = await prompts(client, 1);
    await cut(client);
    await client.dial();
    taken += await prompts(client, 5);
    await crash(client);
    await client.dial();
    taken += await prompts(client, 1000);
    expect(taken).toBeLessThanOrEqual(1000);
    expect(taken).toBeGreaterThan(980);
    expect(await given(someone, "prompts")).toBe(1000);
  });

  it("gives back what is left when it says goodbye", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const client = await open(someone);
    expect(await prompts(client, 3)).toBe(3);
    await cut(client);
    await client.dial();
    await evictDurableObject(client.object);
    client.peer.socket.close(1000);
    await expect.poll(() => given(someone, "prompts")).toBe(3);
  });

  it("loses its socket for a message that asks for nothing, which comes again in the next hour", async () => {
    startOfHour();
    const { agent, sessionId, workspace } = await openSession();
    setLimits({ charsPerHour: 64_000, smallChars: 100 });
    const someone = await user({ tenant: "acme", sub: crypto.randomUUID(), workspaces: [workspace] });
    const client = new Resumable(workspace);
    client.bearer = someone.bearer;
    await client.dial();
    await client.request("initialize", { protocolVersion: 1 });
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    await client.request("_ask", { pad: "x".repeat(50_000) });
    const note = { method: "_note", params: { sessionId, pad: "y".repeat(20_000) } };
    const first = 4;
    await client.until(() => client.received === first - 1);
    client.send([note], first);
    expect(await client.peer.closed).toEqual({ code: 1008, reason: "quota exceeded" });
    await client.dial();
    expect(client.received).toBe(first - 1);
    client.send([note], first);
    expect((await client.peer.closed).code).toBe(1008);
    vi.setSystemTime(Date.now() + HOUR);
    await client.dial();
    client.send([note], first);
    expect(await agent.line()).toMatchObject({ method: "_note" });
    await client.until(() => client.received === first);
  });
});

describe("a client of the older forms", () => {
  it.each([
    ["seed 000", "/acp", seed000.initialize, seed000.prompt, "session-abc123"],
    ["seed 002", "/agent/ws", seed002.initialize, seed002.prompt, "session-uuid"],
  ])("%s is counted as well", async (_, path, initialize, asking, name) => {
    setLimits({ promptsPerHour: 2 });
    const { client } = await connect(await user(), "", path);
    client.send(initialize);
    await client.until((JSON.parse(initialize) as { id: unknown }).id);
    const codes: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      client.send(asking.replaceAll(name, NOWHERE));
      codes.push(codeOf((await client.until((JSON.parse(asking) as { id: unknown }).id)).response));
    }
    expect(codes).toEqual([TAKEN, TAKEN, REFUSED]);
  });

  it("may answer a permission when it has sent all it may", async () => {
    setLimits({ charsPerHour: 64_000 });
    const { client } = await connect(await user(), "", "/agent/ws");
    client.send(seed002.initialize);
    await client.until((JSON.parse(seed002.initialize) as { id: unknown }).id);
    let code = 0;
    for (let n = 0; code !== REFUSED; n += 1) {
      client.send(asking(3000, n));
      code = codeOf((await client.until(n)).response);
    }
    const answer = { requestId: `${NOWHERE}:1`, response: "allow_once" };
    const { response } = await client.request("session/respond_to_permission", answer);
    expect(codeOf(response)).toBe(TAKEN);
  });
});

describe("an import", () => {
  const upload = (bearer: string, body: BodyInit, type = "application/x-tar", query = "") =>
    exports.default.fetch(`https://edge.test/api/sessions/import${query}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${bearer}`, "Content-Type": type },
      body,
    });

  async function archived() {
    const { client, agent, sessionId, workspace } = await openSession();
    for (let n = 0; n < 50; n += 1) agent.update("x".repeat(1000));
    await agent.durable();
    client.socket.close(1000);
    const bearer = await token({ workspace });
    const tar = await (await get(`/api/sessions/${sessionId}/export`, bearer)).arrayBuffer();
    return { tar, sessionId };
  }

  it("counts by its bytes, and leaves nothing of what is too long", async () => {
    const { tar, sessionId } = await archived();
    setLimits({ charsPerHour: 2 * tar.byteLength, importChunkBytes: 4096 });
    const someone = await user({ scopes: CONTROLLER });
    const first = await upload(someone.bearer, tar);
    expect(first.status).toBe(201);
    expect(await given(someone, "chars")).toBe(tar.byteLength);
    const pieces = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < tar.byteLength; at += 4096)
          controller.enqueue(new Uint8Array(tar.slice(at, at + 4096)));
        controller.close();
      },
    });
    const other = await user({ tenant: someone.tenant, scopes: CONTROLLER });
    const second = await upload(other.bearer, pieces, "application/x-tar", "?as=new");
    expect(second.status).toBe(429);
    expect(await second.json()).toMatchObject({ error: { code: "too_many_requests" } });
    expect(Number(second.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(await given(someone, "chars")).toBeLessThanOrEqual(limitOf("chars"));
    const imported = await get(`/api/sessions/${sessionId}`, someone.bearer);
    expect(imported.status).toBe(200);
  });

  it("that is cut short by its length leaves nothing under its own id", async () => {
    const { tar, sessionId } = await archived();
    setLimits({ charsPerHour: Math.floor(tar.byteLength / 2), importChunkBytes: 4096 });
    const someone = await user({ scopes: CONTROLLER });
    const pieces = new Blob([tar]).stream();
    expect((await upload(someone.bearer, pieces)).status).toBe(429);
    const tables = await runInDurableObject(sessionStub(sessionId, someone.tenant), (_, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
    );
    expect(tables).toEqual([]);
    expect((await get(`/api/sessions/${sessionId}`, someone.bearer)).status).toBe(404);
    setLimits({ charsPerHour: LIMITS.frameChars });
    expect((await upload(someone.bearer, tar)).status).toBe(201);
  });

  it("of the older form counts too", async () => {
    setLimits({ charsPerHour: 1000 });
    const someone = await user({ scopes: CONTROLLER });
    const record = JSON.stringify({ pad: "x".repeat(2000) });
    expect((await upload(someone.bearer, record, "application/json")).status).toBe(429);
    const tar = await packTar([]);
    expect((await upload(someone.bearer, tar.slice(0, 500))).status).toBe(400);
  });
});
