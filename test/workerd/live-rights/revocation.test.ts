import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  connectionStub,
  events,
  type Opened,
  openSession,
  sessionStub,
  socketsOf,
  workspaceName,
} from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { HELLO } from "../peers/host.ts";
import { Peer } from "../peers/peer.ts";
import { type Claims, mint } from "../tokens.ts";
import { admin, ask, connect, fakeTime, pass, revoke } from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
});

const entered = async (subject: string) => (await socketsOf(subject)).length;

describe("revoking", () => {
  test.each(["jti", "subject"] as const)(
    "by %s closes every socket of that token or subject, and no other",
    async (kind) => {
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
      // The loops end because the sockets close.
      for (const watcher of watchers) await watcher.text();
      expect((await other.client.request("session/list", {})).response).toHaveProperty("result");
      expect((await ask("GET", "/api/sessions", bearer)).status).toBe(401);
      const newer = await mint({ workspaces: [workspace], sub });
      expect((await ask("GET", "/api/sessions", newer)).status).toBe(kind === "jti" ? 200 : 401);

      const lifted = await ask("DELETE", `/api/revocations/${id}`, await admin());
      expect(lifted.status).toBe(204);
      await vi.waitFor(async () => expect((await ask("GET", "/api/sessions", bearer)).status).toBe(200));
    },
  );

  test("has closed every socket when it is answered", async () => {
    const [sub, workspace] = [crypto.randomUUID(), workspaceName()];
    const bearer = await mint({ workspaces: [workspace], sub });
    const clients = await Promise.all(Array.from({ length: 30 }, () => connect(bearer)));
    await vi.waitFor(async () => expect(await entered(sub)).toBe(clients.length));
    await revoke({ subject: sub });
    const open = (id: string) =>
      runInDurableObject(connectionStub(id), (_, state) =>
        state.getWebSockets().filter((ws) => ws.readyState === WebSocket.READY_STATE_OPEN),
      );
    for (const { connection } of clients) expect(await open(connection)).toEqual([]);
    for (const { client } of clients) expect((await client.closed).code).toBe(4401);
  });

  test("refuses a socket that an outdated cache would accept", async () => {
    setLimits({ revocationCacheMs: 600000 });
    const jti = crypto.randomUUID();
    const bearer = await mint({ workspaces: ["w"], jti });
    expect((await ask("GET", "/api/sessions", bearer)).status).toBe(200);
    // The test calls the tenant directly, as another Worker would, so this Worker's cache stays outdated.
    const order = { kind: "jti", value: jti, workspace: null, until: null } as const;
    const scopes = ["tenant:admin"] as const;
    const boss = { tenant: "acme", subject: "admin", workspaces: ["*"], scopes, expires: 0 };
    await env.TENANT_DO.getByName("acme").revoke(boss, order);
    await expect(Peer.connect("/acp", bearer)).rejects.toThrow("401");
  });

  test("closes a host's sockets", async () => {
    const workspace = workspaceName();
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
    await revoke({ subject: sub });
    expect(await control.closed).toMatchObject({ code: 4401 });
    expect(await link.closed).toMatchObject({ code: 4401 });
    // The socket has not answered the close and counts as closed all the same.
    const view = await ask("GET", `/api/workspaces/${workspace}`, await mint({ workspaces: [workspace] }));
    expect(await view.json()).toMatchObject({ hosts: [{ name: "h1", state: "gone" }] });
  });

  test("lasts until its end or until it is lifted", async () => {
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

  test("of a session that cannot be restored at its end holds up no other, and is tried again", async () => {
    const brokenId = crypto.randomUUID();
    const broken = sessionStub(brokenId);
    // An owner without a log: the object throws whenever the session is asked for anything.
    await runInDurableObject(broken, (_, { storage }) =>
      storage.kv.put("owner", { tenant: "acme", workspace: "w", sessionId: brokenId }),
    );
    await evictDurableObject(broken);
    fakeTime();
    const { workspace, sessionId } = await openSession();
    const bearer = await mint({ workspaces: [workspace] });
    const until = Date.now() + 60_000;
    await revoke({ session: sessionId, until: new Date(until).toISOString() });
    const tenant = env.TENANT_DO.getByName("acme");
    await runInDurableObject(tenant, (_, { storage }) => {
      const row = [crypto.randomUUID(), "session", brokenId, "w", "admin", Date.now(), until - 1];
      storage.sql.exec(
        "INSERT INTO revocation (id, kind, value, workspace, by_subject, at, until) VALUES (?, ?, ?, ?, ?, ?, ?)",
        ...row,
      );
    });
    await pass(61_000, tenant);
    expect((await ask("GET", `/api/sessions/${sessionId}`, bearer)).status).toBe(200);
    const left = await runInDurableObject(tenant, (_, { storage: { sql } }) => {
      const rows = sql.exec("SELECT value FROM revocation WHERE kind = 'session'").toArray();
      const [deadline] = sql.exec<{ at: number }>("SELECT at FROM deadline").toArray();
      sql.exec("DELETE FROM revocation WHERE value = ?", brokenId);
      return { rows, isTriedAgain: (deadline?.at ?? 0) > Date.now() };
    });
    expect(left).toEqual({ rows: [{ value: brokenId }], isTriedAgain: true });
  });

  test("is refused for invalid orders", async () => {
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

  test("closes its clients' sockets and looks like an unknown session to them", async () => {
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

  test("goes on working, and is visible again when the revocation is lifted", async () => {
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

  test("stays revoked when its object starts again", async () => {
    const { workspace, sessionId } = await revoked();
    const stub = sessionStub(sessionId);
    await runInDurableObject(stub, (_, state) => state.abort("killed")).catch(() => {});
    const bearer = await mint({ workspaces: [workspace] });
    await vi.waitFor(async () =>
      expect((await ask("GET", `/api/sessions/${sessionId}`, bearer)).status).toBe(404),
    );
  });
});

describe("a caller without any right", () => {
  test("[I12] creates no object", async () => {
    const name = workspaceName();
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
    // The tenant has the token in its list, and nothing else.
    const rows = await runInDurableObject(env.TENANT_DO.getByName(tenant), (_, { storage: { sql } }) =>
      sql
        .exec<{ name: string }>(
          "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '%\\_%' ESCAPE '\\'",
        )
        .toArray()
        .flatMap(({ name }) =>
          sql
            .exec(`SELECT * FROM ${name}`)
            .toArray()
            .map(() => name),
        ),
    );
    expect(rows).toEqual(["token"]);
  });
});
