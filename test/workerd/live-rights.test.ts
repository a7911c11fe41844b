import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { LIMITS } from "../../src/protocol/limits.ts";
import {
  Client,
  events,
  eventsText,
  HELLO,
  type Opened,
  openSession,
  Peer,
  sessionStub,
  texts,
} from "./harness.ts";
import { EventReader, INITIALIZE, JSON_TYPE } from "./http-peer.ts";
import { setLimits } from "./limits.ts";
import { ALL_OF_A_CLIENT, type Claims, CONTROLLER, mint } from "./tokens.ts";

const HOUR = 3_600_000;

afterEach(() => {
  vi.useRealTimers();
});

async function ask(method: string, path: string, bearer: string, body?: unknown): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: { Authorization: `Bearer ${bearer}`, ...JSON_TYPE },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

const admin = (claims: Claims = {}) => mint({ scopes: ALL_OF_A_CLIENT, sub: "admin", ...claims });

async function revoke(what: object): Promise<{ id: string }> {
  const response = await ask("POST", "/api/revocations", await admin({ workspaces: ["*"] }), what);
  expect(response.status).toBe(201);
  return response.json();
}

/** A client on a socket, with the token it is given. */
async function connect(bearer: string, query = ""): Promise<{ client: Client; connection: string }> {
  const response = await exports.default.fetch(`https://edge.test/acp${query}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  const client = new Client(response.webSocket);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return { client, connection: response.headers.get("Acp-Connection-Id") as string };
}

/** Lets time pass, and rings the object's alarm as that would have. */
async function pass(ms: number, stub: DurableObjectStub): Promise<void> {
  vi.setSystemTime(Date.now() + ms);
  await runDurableObjectAlarm(stub);
}

const fakeTime = () => vi.useFakeTimers({ toFake: ["Date"] });
const connectionOf = (id: string) => env.ACP_CONNECTION_DO.getByName(id);

async function attach(client: Client, sessionId: string): Promise<void> {
  await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
}

describe("a client's token", () => {
  it("ends its socket when it ends, after a warning", async () => {
    fakeTime();
    const { workspace, sessionId } = await openSession();
    const { client, connection } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    await pass(HOUR - LIMITS.tokenWarningMs, connectionOf(connection));
    const warning = await client.takeJson();
    expect(warning).toMatchObject({ method: "_acp-edge/token_expiring" });
    const { expiresAt } = warning.params as { expiresAt: string };
    expect(Math.abs(Date.parse(expiresAt) - Date.now() - LIMITS.tokenWarningMs)).toBeLessThan(5_000);
    await pass(LIMITS.tokenWarningMs, connectionOf(connection));
    expect(await client.closed).toMatchObject({ code: 4401, reason: "token expired" });
    client.socket.close();
    // Nothing is left of it, in its object or in its session.
    await vi.waitFor(async () => {
      const left = await runInDurableObject(connectionOf(connection), (_, { storage }) => storage.getAlarm());
      expect(left).toBeNull();
      const bearer = await mint({ workspaces: [workspace] });
      const view = (await (await ask("GET", `/api/sessions/${sessionId}`, bearer)).json()) as {
        clients: { connection: string }[];
      };
      expect(view.clients.some((one) => one.connection === connection)).toBe(false);
    });
  });

  it("is good for nothing after its end, should the alarm be late", async () => {
    fakeTime();
    const { client } = await connect(await mint({ workspaces: ["w"] }));
    vi.setSystemTime(Date.now() + HOUR);
    client.call("session/list", {});
    expect((await client.closed).code).toBe(4401);
  });

  it("is renewed in place, in the middle of a turn", async () => {
    fakeTime();
    const { workspace, agent, sessionId } = await openSession();
    const { client, connection } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    const turn = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
    const request = await agent.line();
    const said = Array.from({ length: 60 }, (_, n) => `piece ${n}`);
    for (const text of said.slice(0, 20)) agent.update(text);
    vi.setSystemTime(Date.now() + HOUR - 1000);
    const newer = await mint({ workspaces: [workspace], exp: 7200 });
    const renewing = client.call("_acp-edge/renew", { token: newer });
    for (const text of said.slice(20, 40)) agent.update(text);
    const { response, before } = await client.until(renewing);
    expect(Date.parse((response.result as { expiresAt: string }).expiresAt)).toBeGreaterThan(
      Date.now() + HOUR,
    );
    // The old token is over; the turn is not.
    await pass(2000, connectionOf(connection));
    for (const text of said.slice(40)) agent.update(text);
    agent.answer(request, { stopReason: "end_turn" });
    const rest = await client.until(turn);
    expect(rest.response.result).toEqual({ stopReason: "end_turn" });
    expect(texts([...before, ...rest.before])).toEqual(said);
    await pass(2 * HOUR, connectionOf(connection));
    expect((await client.closed).code).toBe(4401);
    expect(await eventsText(workspace, sessionId)).not.toContain(newer.split(".")[2]);
  });

  it("is not replaced by one that is not the same client's", async () => {
    const { workspace, sessionId } = await openSession();
    const { client } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    const jti = crypto.randomUUID();
    await revoke({ jti });
    for (const claims of [
      { sub: "another" },
      { tenant: "other" },
      { scopes: ["host"] },
      { scopes: ["share"] },
      { workspaces: ["elsewhere"] },
      { exp: -60 },
      { jti },
    ] satisfies Claims[]) {
      const token = await mint({ workspaces: [workspace], ...claims });
      const { response } = await client.request("_acp-edge/renew", { token });
      expect([claims, response.error]).toMatchObject([claims, { code: -32003 }]);
    }
    const { response } = await client.request("_acp-edge/renew", {});
    expect(response.error).toMatchObject({ code: -32602 });
    expect((await client.request("session/list", {})).response).toHaveProperty("result");
  });

  it("gives the rights it says, from then on", async () => {
    const { workspace, agent, sessionId } = await openSession();
    const renewWith = async (client: Client, scopes: string[]) => {
      const token = await mint({ workspaces: [workspace], scopes });
      return (await client.request("_acp-edge/renew", { token })).response;
    };
    const roleOf = async (connection: string) => {
      const bearer = await mint({ workspaces: [workspace] });
      const view = await (await ask("GET", `/api/sessions/${sessionId}`, bearer)).json();
      const { clients } = view as { clients: { connection: string; role: string }[] };
      return clients.find((one) => one.connection === connection)?.role;
    };
    const prompt = { sessionId, prompt: [{ type: "text", text: "hi" }] };
    const { client, connection } = await connect(await mint({ workspaces: [workspace] }));
    await attach(client, sessionId);
    expect(await roleOf(connection)).toBe("controller");
    await renewWith(client, ["session:read"]);
    expect(await roleOf(connection)).toBe("observer");
    expect((await client.request("session/prompt", prompt)).response.error).toMatchObject({ code: -32003 });
    await renewWith(client, CONTROLLER);
    expect(await roleOf(connection)).toBe("controller");
    const turn = client.call("session/prompt", prompt);
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "end_turn" });

    const watching = await connect(await mint({ workspaces: [workspace] }), "?role=observer");
    await attach(watching.client, sessionId);
    await renewWith(watching.client, CONTROLLER);
    expect(await roleOf(watching.connection)).toBe("observer");
  });

  it("gets into no log, whatever a client puts around it", async () => {
    const { workspace, client, agent, sessionId } = await openSession();
    const token = await mint({ workspaces: [workspace] });
    client.notify("_acp-edge/renew", { token, sessionId });
    await client.request("_acp-edge/renew", { token, sessionId });
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "hi" }] });
    expect((await agent.line()).method).toBe("session/prompt");
    expect(await eventsText(workspace, sessionId)).not.toContain(token.split(".")[2]);
  });
});

describe("over HTTP", () => {
  async function open(bearer: string) {
    const response = await exports.default.fetch("https://edge.test/acp", {
      method: "POST",
      headers: { Authorization: `Bearer ${bearer}`, ...JSON_TYPE },
      body: INITIALIZE,
    });
    const connection = response.headers.get("Acp-Connection-Id") as string;
    const headers = { "Acp-Connection-Id": connection };
    const stream = async (token: string) => {
      const answer = await exports.default.fetch("https://edge.test/acp", {
        headers: { Authorization: `Bearer ${token}`, Accept: "text/event-stream", ...headers },
      });
      if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
      return new EventReader(answer);
    };
    const post = async (token: string) => {
      const answer = await exports.default.fetch("https://edge.test/acp", {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, ...JSON_TYPE, ...headers },
        body: '{"jsonrpc":"2.0","id":9,"method":"session/list","params":{}}',
      });
      return answer.status;
    };
    return { connection, stream, post };
  }

  it("a stream ends with its token, and goes on with the next one", async () => {
    fakeTime();
    const workspace = `w-${crypto.randomUUID()}`;
    const first = await mint({ workspaces: [workspace] });
    const { connection, stream, post } = await open(first);
    const reader = await stream(first);
    await pass(HOUR - LIMITS.tokenWarningMs, connectionOf(connection));
    expect((await reader.next())?.message).toMatchObject({ method: "_acp-edge/token_expiring" });
    await pass(LIMITS.tokenWarningMs, connectionOf(connection));
    expect(await reader.next()).toBeUndefined();
    const second = await mint({ workspaces: [workspace] });
    const again = await stream(second);
    expect(await post(second)).toBe(202);
    expect(await again.take()).toMatchObject({ id: 9 });
    await again.cancel();
  });

  it("a later request with a newer token keeps the stream alive", async () => {
    fakeTime();
    const workspace = `w-${crypto.randomUUID()}`;
    const first = await mint({ workspaces: [workspace] });
    const { connection, stream, post } = await open(first);
    const reader = await stream(first);
    vi.setSystemTime(Date.now() + HOUR - 100_000);
    const second = await mint({ workspaces: [workspace] });
    expect(await post(second)).toBe(202);
    expect(await reader.take()).toMatchObject({ id: 9 });
    await pass(200_000, connectionOf(connection));
    expect(await post(second)).toBe(202);
    expect(await reader.take()).toMatchObject({ id: 9 });
    await reader.cancel();
  });

  it("a revoked token ends the connection", async () => {
    const sub = crypto.randomUUID();
    const bearer = await mint({ workspaces: [`w-${crypto.randomUUID()}`], sub });
    const { stream, connection } = await open(bearer);
    const reader = await stream(bearer);
    await vi.waitFor(async () => expect(await isEntered(connection)).toBe(true));
    await revoke({ subject: sub });
    expect(await reader.next()).toBeUndefined();
    expect((await ask("GET", "/api/sessions", await mint({ sub }))).status).toBe(401);
  });
});

/** Whether the tenant knows of a socket. */
async function isEntered(id: string): Promise<boolean> {
  return runInDurableObject(env.TENANT_DO.getByName("acme"), (_, { storage }) => {
    return storage.sql.exec("SELECT 1 FROM socket WHERE id = ?", id).toArray().length > 0;
  });
}

async function entered(subject: string): Promise<number> {
  return runInDurableObject(env.TENANT_DO.getByName("acme"), (_, { storage }) => {
    return storage.sql.exec("SELECT 1 FROM socket WHERE subject = ?", subject).toArray().length;
  });
}

describe("revoking", () => {
  it.each(["jti", "subject"] as const)("by %s ends every socket of it, and no other", async (kind) => {
    const { workspace, sessionId } = await openSession();
    const [sub, jti] = [crypto.randomUUID(), crypto.randomUUID()];
    const bearer = await mint({ workspaces: [workspace], sub, jti });
    const other = await connect(await mint({ workspaces: [workspace], sub: `${sub}-x`, jti: `${jti}-x` }));
    const { client } = await connect(bearer);
    const watch = (path: string) =>
      exports.default.fetch(`https://edge.test/api/${path}`, {
        headers: { Authorization: `Bearer ${bearer}`, Accept: "text/event-stream" },
      });
    const watchers = [await watch(`sessions/${sessionId}/events`), await watch(`workspaces/${workspace}`)];
    await vi.waitFor(async () => expect(await entered(sub)).toBe(3));
    const { id } = await revoke(kind === "jti" ? { jti } : { subject: sub });
    expect(await client.closed).toMatchObject({ code: 4401, reason: "token revoked" });
    // They end: they would go on for ever otherwise.
    for (const watcher of watchers) await watcher.text();
    expect((await other.client.request("session/list", {})).response).toHaveProperty("result");
    expect((await ask("GET", "/api/sessions", bearer)).status).toBe(401);
    const newer = await mint({ workspaces: [workspace], sub });
    expect((await ask("GET", "/api/sessions", newer)).status).toBe(kind === "jti" ? 200 : 401);

    const lifted = await ask("DELETE", `/api/revocations/${id}`, await admin());
    expect(lifted.status).toBe(204);
    await vi.waitFor(async () => expect((await ask("GET", "/api/sessions", bearer)).status).toBe(200));
  });

  it("has ended all of them when it is answered", async () => {
    const [sub, workspace] = [crypto.randomUUID(), `w-${crypto.randomUUID()}`];
    const bearer = await mint({ workspaces: [workspace], sub });
    const clients = await Promise.all(Array.from({ length: 30 }, () => connect(bearer)));
    await vi.waitFor(async () => expect(await entered(sub)).toBe(clients.length));
    await revoke({ subject: sub });
    const open = (id: string) =>
      runInDurableObject(connectionOf(id), (_, state) =>
        state.getWebSockets().filter((ws) => ws.readyState === WebSocket.READY_STATE_OPEN),
      );
    for (const { connection } of clients) expect(await open(connection)).toEqual([]);
    for (const { client } of clients) expect((await client.closed).code).toBe(4401);
  });

  it("finds a socket that was let in on old knowledge", async () => {
    setLimits({ revocationCacheMs: 600000 });
    const jti = crypto.randomUUID();
    const bearer = await mint({ workspaces: ["w"], jti });
    expect((await ask("GET", "/api/sessions", bearer)).status).toBe(200);
    // Past the Worker, as if another one had been asked.
    const order = { kind: "jti", value: jti, until: null } as const;
    const scopes = ["workspace:admin"] as const;
    const boss = { tenant: "acme", subject: "admin", workspaces: ["*"], scopes, expires: 0 };
    await env.TENANT_DO.getByName("acme").revoke(boss, order);
    const peer = await Peer.connect("/acp", bearer);
    expect(await peer.closed).toMatchObject({ code: 4401, reason: "token revoked" });
  });

  it("ends a host's sockets", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const sub = crypto.randomUUID();
    const bearer = await mint({ workspaces: [workspace], scopes: ["host"], sub });
    const control = await Peer.connect("/host/control", bearer);
    control.send(JSON.stringify({ ...HELLO, instance: "i" }));
    await control.take();
    const { sessionId, workspace: other } = await openSession();
    const link = await Peer.connect(
      `/host/sessions/${sessionId}`,
      await mint({ workspaces: [other], scopes: ["host"], sub }),
    );
    await vi.waitFor(async () => expect(await entered(sub)).toBe(2));
    await revoke({ subject: sub });
    expect(await control.closed).toMatchObject({ code: 4401 });
    expect(await link.closed).toMatchObject({ code: 4401 });
    // It has not answered, and is taken for gone all the same.
    const view = await ask("GET", `/api/workspaces/${workspace}`, await mint({ workspaces: [workspace] }));
    expect(await view.json()).toMatchObject({ hosts: [{ name: "h1", state: "gone" }] });
  });

  it("lasts until it says, or until it is lifted", async () => {
    fakeTime();
    const { workspace, sessionId } = await openSession();
    const sub = crypto.randomUUID();
    const bearer = await mint({ workspaces: [workspace], sub });
    const until = new Date(Date.now() + 60_000).toISOString();
    await revoke({ subject: sub, until });
    await revoke({ session: sessionId, until });
    expect((await ask("GET", "/api/sessions", bearer)).status).toBe(401);
    await pass(61_000, env.TENANT_DO.getByName("acme"));
    expect((await ask("GET", `/api/sessions/${sessionId}`, bearer)).status).toBe(200);
    const { revocations } = (await (await ask("GET", "/api/revocations", await admin())).json()) as {
      revocations: { value: string }[];
    };
    expect(revocations.filter(({ value }) => value === sub || value === sessionId)).toEqual([]);
  });

  it("is refused where it makes no sense", async () => {
    const order = async (body: unknown, claims: Claims = {}) =>
      (await ask("POST", "/api/revocations", await admin(claims), body)).status;
    expect(await order({ subject: "admin" })).toBe(409);
    expect(await order({ jti: "mine" }, { jti: "mine" })).toBe(409);
    for (const body of [
      {},
      { jti: "" },
      { jti: "a", subject: "b" },
      { jti: 7 },
      null,
      { jti: "a", until: "x" },
    ])
      expect([body, await order(body)]).toEqual([body, 400]);
    expect(await order({ jti: "a", until: "2020-01-01T00:00:00Z" })).toBe(400);
    expect(await order({ session: "no-uuid" })).toBe(404);
    expect(await order({ session: crypto.randomUUID() })).toBe(404);
  });
});

describe("a revoked session", () => {
  async function revoked(): Promise<Opened & { id: string; turn: number }> {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const turn = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
    await agent.line();
    return { ...opened, turn, ...(await revoke({ session: sessionId })) };
  }

  it("ends what its clients have open, and looks like no session to them", async () => {
    const { client, workspace, sessionId } = await revoked();
    expect(await client.closed).toMatchObject({ code: 4401, reason: "session revoked" });
    const bearer = await mint({ workspaces: [workspace] });
    const answer = async (id: string) => (await ask("GET", `/api/sessions/${id}`, bearer)).text();
    expect(await answer(sessionId)).toBe(await answer(crypto.randomUUID()));
    const again = await connect(bearer);
    const { response } = await again.client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(response.error).toMatchObject({ code: -32002, message: "Unknown session" });
    const { sessions } = (await (await ask("GET", "/api/sessions", bearer)).json()) as {
      sessions: unknown[];
    };
    expect(sessions).toEqual([]);
  });

  it("goes on working, and is there again when that is lifted", async () => {
    const { agent, workspace, sessionId, id } = await revoked();
    agent.update("still here");
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 4, result: { stopReason: "end_turn" } }));
    await agent.durable();
    const boss = await admin({ workspaces: [workspace] });
    const log = await (await ask("GET", `/api/sessions/${sessionId}/events`, boss)).text();
    expect(log).toContain("still here");
    expect((await ask("DELETE", `/api/revocations/${id}`, boss)).status).toBe(204);
    expect((await events(workspace, sessionId)).length).toBeGreaterThan(0);
    const bearer = await mint({ workspaces: [workspace] });
    await vi.waitFor(async () => {
      const { sessions } = (await (await ask("GET", "/api/sessions", bearer)).json()) as {
        sessions: unknown[];
      };
      expect(sessions).toHaveLength(1);
    });
  });

  it("stays so when its object starts again", async () => {
    const { workspace, sessionId } = await revoked();
    const stub = sessionStub(sessionId);
    await runInDurableObject(stub, (_, state) => state.abort("killed")).catch(() => {});
    const bearer = await mint({ workspaces: [workspace] });
    await vi.waitFor(async () =>
      expect((await ask("GET", `/api/sessions/${sessionId}`, bearer)).status).toBe(404),
    );
  });
});

describe("a host's token", () => {
  it("is renewed on the control socket, and ends it when it ends", async () => {
    fakeTime();
    const workspace = `w-${crypto.randomUUID()}`;
    const host = { workspaces: [workspace], scopes: ["host"], sub: "host:1" };
    const control = await Peer.connect("/host/control", await mint(host));
    const stub = env.WORKSPACE_STATE_DO.getByName(`acme/${workspace}`);
    control.send(JSON.stringify({ ...HELLO, instance: "i" }));
    expect(await control.takeJson()).toEqual({ t: "welcome" });
    await pass(HOUR - LIMITS.tokenWarningMs, stub);
    expect(await control.takeJson()).toMatchObject({ t: "expiring" });
    const renewWith = async (claims: Claims) => {
      control.send(JSON.stringify({ t: "renew", token: await mint({ ...host, ...claims }) }));
      return (await control.takeJson()).t;
    };
    for (const claims of [
      { sub: "host:2" },
      { tenant: "other" },
      { workspaces: ["x"] },
      { scopes: CONTROLLER },
      // No newer than what it has: that would not help it.
      { exp: LIMITS.tokenWarningMs / 1000 - 1 },
    ])
      expect([claims, await renewWith(claims)]).toEqual([claims, "not_renewed"]);
    expect(await renewWith({})).toBe("renewed");
    await pass(2 * LIMITS.tokenWarningMs, stub);
    await pass(HOUR - 3 * LIMITS.tokenWarningMs, stub);
    expect(await control.takeJson()).toMatchObject({ t: "expiring" });
    await pass(LIMITS.tokenWarningMs, stub);
    expect(await control.closed).toMatchObject({ code: 4401, reason: "token expired" });
  });

  it("ends a session's socket on time, also if the one before would have lasted longer", async () => {
    fakeTime();
    const { workspace, sessionId } = await openSession();
    const bearer = await mint({ workspaces: [workspace], scopes: ["host"] });
    const link = await Peer.connect(`/host/sessions/${sessionId}`, bearer);
    await pass(HOUR, sessionStub(sessionId));
    expect(await link.closed).toMatchObject({ code: 4401, reason: "token expired" });
  });

  it("ends a session's socket, which costs a reconnect and nothing of the turn", async () => {
    fakeTime();
    const { workspace, client, agent, sessionId } = await openSession();
    const turn = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
    const request = await agent.line();
    agent.update("before");
    await agent.durable();
    const { link } = agent;
    const week = 7 * 24 * HOUR;
    vi.setSystemTime(Date.now() + week - HOUR);
    const token = await mint({ workspaces: [workspace], exp: 7200 });
    const renewed = await client.request("_acp-edge/renew", { token });
    expect(renewed.response).toHaveProperty("result");
    await pass(HOUR, sessionStub(sessionId));
    expect(await link.closed).toMatchObject({ code: 4401, reason: "token expired" });
    await agent.reconnect();
    agent.update("after");
    agent.answer(request, { stopReason: "end_turn" });
    const { before, response } = await client.until(turn);
    expect(texts([...renewed.before, ...before])).toEqual(["before", "after"]);
    expect(response.result).toEqual({ stopReason: "end_turn" });
  });
});

describe("the audit", () => {
  type Entry = { seq: number; kind: string; subject: string; workspace: string | null; detail: object };
  async function audit(query: string, claims: Claims = { workspaces: ["*"] }): Promise<Entry[]> {
    const response = await ask("GET", `/api/audit?limit=1000${query}`, await admin(claims));
    expect(response.status).toBe(200);
    return ((await response.json()) as { entries: Entry[] }).entries;
  }

  it("has what was done, by whom", async () => {
    const tenant = `t-${crypto.randomUUID()}`;
    const name = `w-${crypto.randomUUID()}`;
    const as = (claims: Claims) => mint({ tenant, workspaces: [name], ...claims });
    const control = await Peer.connect("/host/control", await as({ scopes: ["host"], sub: "host:1" }));
    control.send(JSON.stringify({ ...HELLO, instance: "i" }));
    await control.takeJson();
    control.socket.close(1000, "bye");
    const boss = await as({ scopes: ALL_OF_A_CLIENT, sub: "boss" });
    await ask("PUT", `/api/workspaces/${name}`, boss, { policy: { default: "ask" } });
    const { id } = (await (await ask("POST", "/api/revocations", boss, { jti: "lost" })).json()) as {
      id: string;
    };
    await ask("DELETE", `/api/revocations/${id}`, boss);
    await ask("GET", "/api/sessions", await as({ exp: -60, sub: "late" }));
    await ask("GET", "/api/sessions", await as({ exp: -60, sub: "late" }));
    await vi.waitFor(async () => {
      const entries = await audit("", { tenant, workspaces: ["*"] });
      expect(entries.map(({ kind, subject }) => `${kind} ${subject}`).sort()).toEqual([
        "host.joined host:1",
        "host.left host:1",
        "revocation.lifted boss",
        "revocation.made boss",
        "token.refused late",
        "workspace.changed boss",
      ]);
    });
    const made = await audit("&kind=revocation.made", { tenant, workspaces: ["*"] });
    expect(made).toMatchObject([{ detail: { jti: "lost" } }]);
    const elsewhere = await audit("", { tenant, workspaces: ["elsewhere"] });
    expect(elsewhere.map(({ workspace }) => workspace).every((one) => one === null)).toBe(true);
  });

  it("has answers to permissions and deleted sessions", async () => {
    const { client, agent, sessionId } = await openSession();
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "ask" }] });
    await agent.line();
    const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
    const params = { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 5, method: "session/request_permission", params }));
    const request = await client.takeJson();
    const result = { outcome: { outcome: "selected", optionId: "yes" } };
    client.send(JSON.stringify({ jsonrpc: "2.0", id: request.id, result }));
    await agent.line();
    await client.request("session/delete", { sessionId });
    await vi.waitFor(async () => {
      const entries = (await audit("")).filter((entry) => "session" in entry && entry.session === sessionId);
      expect(entries).toMatchObject([
        {
          kind: "permission.answered",
          subject: "someone",
          detail: { outcome: JSON.stringify(result.outcome) },
        },
        { kind: "session.deleted", subject: "someone" },
      ]);
    });
  });

  it("is read page by page, and keeps the newest", async () => {
    setLimits({ auditEntries: 10 });
    const tenant = `t-${crypto.randomUUID()}`;
    const stub = env.TENANT_DO.getByName(tenant);
    for (let n = 1; n <= 25; n++) await stub.record({ kind: "share.made", subject: `s${n}` });
    const bearer = await admin({ tenant });
    const seen: string[] = [];
    for (let after: number | null = 0; after !== null; ) {
      const page = (await (await ask("GET", `/api/audit?limit=4&after=${after}`, bearer)).json()) as {
        entries: Entry[];
        next: number | null;
      };
      expect(page.entries.length).toBeLessThanOrEqual(4);
      seen.push(...page.entries.map(({ subject }) => subject));
      after = page.next;
    }
    expect(seen).toEqual(Array.from({ length: 10 }, (_, n) => `s${n + 16}`));
  });
});

describe("who has no right to anything", () => {
  it("makes no object", async () => {
    const name = `w-${crypto.randomUUID()}`;
    const tables = (stub: DurableObjectStub) =>
      runInDurableObject(stub, (_, { storage }) =>
        storage.sql.exec("SELECT name FROM sqlite_master").toArray(),
      );
    const tenant = `t-${crypto.randomUUID()}`;
    const sessionId = crypto.randomUUID();
    const bearer = await mint({ tenant, workspaces: ["elsewhere"] });
    await ask("GET", `/api/workspaces/${name}`, bearer);
    await ask("GET", `/api/sessions/${sessionId}`, bearer);
    await ask("GET", `/acp?workspace=${name}`, bearer);
    expect(await tables(env.WORKSPACE_STATE_DO.getByName(`${tenant}/${name}`))).toEqual([]);
    expect(await tables(sessionStub(sessionId, tenant))).toEqual([]);
    expect(await tables(env.TENANT_DO.getByName(tenant))).toEqual([]);
  });
});
