import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { Caller, Scope } from "../../../src/protocol/caller.ts";
import type { Revocation } from "../../../src/protocol/rest-tenant.ts";
import { PAST_TABLES } from "../durable/past-schemas.ts";
import { openSession, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { HELLO } from "../peers/host.ts";
import { Peer } from "../peers/peer.ts";
import { ALL_OF_A_CLIENT, type Claims, mint, WORKSPACE_ADMIN } from "../tokens.ts";
import { ask, connect, revoke } from "./fixtures.ts";

/** The rights of administrators of workspaces to revoke, list and lift, beside those of the tenant's. */

const adminOf = (workspace: string, more: Claims = {}) =>
  mint({ workspaces: [workspace], scopes: WORKSPACE_ADMIN, sub: `admin-of-${workspace}`, ...more });

async function listed(bearer: string): Promise<string[]> {
  const response = await ask("GET", "/api/revocations", bearer);
  return ((await response.json()) as { revocations: Revocation[] }).revocations.map(({ value }) => value);
}

describe("an administrator of a workspace", () => {
  test("neither sees nor lifts nor makes revocations of the tenant, even with all workspaces", async () => {
    const alice = crypto.randomUUID();
    const { id } = await revoke({ subject: alice });
    for (const mallory of [await adminOf("other"), await adminOf("*")]) {
      expect(await listed(mallory)).not.toContain(alice);
      expect((await ask("DELETE", `/api/revocations/${id}`, mallory)).status).toBe(404);
      for (const order of [{ subject: "host:local" }, { jti: "x" }])
        expect((await ask("POST", "/api/revocations", mallory, order)).status).toBe(403);
    }
    const hers = await mint({ workspaces: ["local"], sub: alice });
    expect((await ask("GET", "/api/sessions", hers)).status).toBe(401);
  });

  test("neither revokes nor restores a session of another workspace", async () => {
    const { workspace, sessionId } = await openSession();
    const mallory = await adminOf("other");
    expect((await ask("POST", "/api/revocations", mallory, { session: sessionId })).status).toBe(404);
    const { id } = await revoke({ session: sessionId });
    expect(await listed(mallory)).not.toContain(sessionId);
    expect((await ask("DELETE", `/api/revocations/${id}`, mallory)).status).toBe(404);
    const reader = await mint({ workspaces: [workspace] });
    expect((await ask("GET", `/api/sessions/${sessionId}`, reader)).status).toBe(404);

    const own = await adminOf(workspace);
    expect(await listed(own)).toContain(sessionId);
    expect((await ask("DELETE", `/api/revocations/${id}`, own)).status).toBe(204);
    expect((await ask("GET", `/api/sessions/${sessionId}`, reader)).status).toBe(200);
  });

  test.each(["jti", "subject"] as const)(
    "revokes by %s the host of its own workspace, and no other with that name",
    async (kind) => {
      const [mine, other] = [workspaceName(), workspaceName()];
      const [sub, jti] = [crypto.randomUUID(), crypto.randomUUID()];
      const join = async (workspace: string) => {
        const bearer = await mint({ workspaces: [workspace], scopes: ["host"], sub, jti });
        const control = await Peer.connect("/host/control", bearer);
        control.send(JSON.stringify({ ...HELLO, instance: workspace }));
        await control.take();
        return { control, bearer };
      };
      const [here, there] = [await join(mine), await join(other)];
      const order = { [kind]: kind === "jti" ? jti : sub, workspace: mine };
      const stranger = await adminOf("elsewhere");
      expect((await ask("POST", "/api/revocations", stranger, order)).status).toBe(403);
      const admin = await adminOf(mine);
      const made = await ask("POST", "/api/revocations", admin, order);
      expect(await made.json()).toMatchObject({ kind, workspace: mine });
      expect(await here.control.closed).toMatchObject({ code: 4401 });
      const dial = ({ bearer }: typeof here) => Peer.connect("/host/control", bearer);
      await expect(dial(here)).rejects.toThrow("401");
      await expect(dial(there)).resolves.toBeInstanceOf(Peer);
      expect(await listed(admin)).toContain(order[kind]);
      expect(await listed(await adminOf(other))).not.toContain(order[kind]);
    },
  );

  test("ends a token that is valid in its workspace alone, and no wider token of that subject", async () => {
    const { workspace } = await openSession();
    const sub = crypto.randomUUID();
    const narrow = await mint({ workspaces: [workspace], sub });
    const wider = [
      await mint({ workspaces: [workspace, "other"], sub }),
      await mint({ workspaces: ["*"], sub }),
      await mint({ workspaces: [workspace], scopes: ["session:read", "tenant:admin"], sub }),
    ];
    const clients = await Promise.all(wider.map((bearer) => connect(bearer, `?workspace=${workspace}`)));
    await ask("POST", "/api/revocations", await adminOf(workspace), { subject: sub, workspace });
    expect((await ask("GET", "/api/sessions", narrow)).status).toBe(401);
    for (const bearer of wider) expect((await ask("GET", "/api/sessions", bearer)).status).toBe(200);
    for (const { client } of clients)
      expect((await client.request("session/list", {})).response).toHaveProperty("result");
  });
});

describe("an administrator of the tenant", () => {
  test("revokes and restores a session of any workspace, without reading it", async () => {
    const { workspace, sessionId } = await openSession();
    const scopes = ["session:read", "tenant:admin"];
    const admin = await mint({ workspaces: ["elsewhere"], scopes, sub: "root" });
    const made = await ask("POST", "/api/revocations", admin, { session: sessionId });
    expect(made.status).toBe(201);
    const { id, workspace: where } = (await made.json()) as Revocation;
    expect(where).toBe(workspace);
    expect((await ask("GET", `/api/sessions/${sessionId}`, admin)).status).toBe(404);
    expect((await ask("DELETE", `/api/revocations/${id}`, admin)).status).toBe(204);
    const reader = await mint({ workspaces: [workspace] });
    expect((await ask("GET", `/api/sessions/${sessionId}`, reader)).status).toBe(200);
  });

  test("has no right in workspaces by that alone", async () => {
    const admin = await mint({ workspaces: ["*"], scopes: ["session:read", "tenant:admin"] });
    expect((await ask("GET", `/api/workspaces/${workspaceName()}/secrets`, admin)).status).toBe(403);
  });
});

describe("the list of revocations", () => {
  function actor(tenant: string, subject: string, scopes: Scope[], workspaces = ["*"]): Caller {
    return { tenant, subject, workspaces, scopes, expires: 0 };
  }
  const order = (kind: "jti" | "subject", value: string, workspace: string | null = null) =>
    ({ kind, value, workspace, until: null }) as const;

  test("cannot be filled by administrators of workspaces", async () => {
    setLimits({ revocations: 8, revocationsPerMaker: 2 });
    const tenant = crypto.randomUUID();
    const stub = env.TENANT_DO.getByName(tenant);
    const root = actor(tenant, "root", ["tenant:admin"]);
    // Four makers with two each; half of eight is theirs.
    for (const n of [0, 1, 2, 3])
      for (const value of ["a", "b"])
        await stub.revoke(actor(tenant, `m${n}`, ["workspace:admin"]), order("subject", `${n}${value}`, "w"));
    expect(await stub.listRevocations(root)).toHaveLength(4);
    const late = await stub.revoke(actor(tenant, "m4", ["workspace:admin"]), order("subject", "late", "w"));
    expect(late).toMatchObject({ ok: false, refusal: { reason: "conflict" } });
    for (const n of [1, 2, 3, 4])
      expect(await stub.revoke(root, order("subject", `s${n}`))).toHaveProperty("ok", true);
    expect(await stub.revoke(root, order("subject", "s4"))).toHaveProperty("ok", true);
  });

  test("never loses a revocation to a newer one", async () => {
    setLimits({ revocations: 100, revocationsPerMaker: 2 });
    const tenant = crypto.randomUUID();
    const stub = env.TENANT_DO.getByName(tenant);
    const root = actor(tenant, "root", ["tenant:admin"]);
    await stub.revoke(root, order("jti", "of-root"));
    const maker = actor(tenant, "m", ["workspace:admin"]);
    for (const value of ["first", "second"]) await stub.revoke(maker, order("jti", value, "w"));
    expect(await stub.revoke(maker, order("jti", "third", "w"))).toMatchObject({
      ...{ ok: false, refusal: { reason: "conflict" } },
    });
    const values = (await stub.listRevocations(root)).map(({ value }) => value);
    expect(values.sort()).toEqual(["first", "of-root", "second"]);
    const { entries } = await stub.auditPage(root, { after: 0, limit: 10, kind: "revocation.lifted" });
    expect(entries).toEqual([]);
  });

  test("always has room for subjects, for an administrator of the tenant", async () => {
    setLimits({ revocations: 2 });
    const tenant = crypto.randomUUID();
    const stub = env.TENANT_DO.getByName(tenant);
    const root = actor(tenant, "root", ["tenant:admin"]);
    for (const value of ["a", "b"])
      expect(await stub.revoke(root, order("jti", value))).toHaveProperty("ok", true);
    const full = { ok: false, refusal: { reason: "conflict" } };
    expect(await stub.revoke(root, order("jti", "c"))).toMatchObject(full);
    const session = { kind: "session", value: crypto.randomUUID(), workspace: null, until: null } as const;
    // Refused before the session is asked: the session is unknown, and that would be another refusal.
    expect(await stub.revoke(root, session)).toMatchObject(full);
    for (const value of ["x", "y", "z"])
      expect(await stub.revoke(root, order("subject", value))).toHaveProperty("ok", true);
    expect(await stub.isRevoked({ subject: "z", workspace: null })).toBe(true);
    expect(await stub.listRevocations(root)).toHaveLength(5);
  });

  test("gives the room of ended revocations to new ones", async () => {
    setLimits({ revocations: 1 });
    const tenant = crypto.randomUUID();
    const stub = env.TENANT_DO.getByName(tenant);
    const root = actor(tenant, "root", ["tenant:admin"]);
    await stub.revoke(root, { ...order("jti", "ended"), until: Date.now() - 1 });
    expect(await stub.revoke(root, order("jti", "new"))).toHaveProperty("ok", true);
  });

  test("keeps what an earlier version has stored", async () => {
    const tenant = crypto.randomUUID();
    const stub = env.TENANT_DO.getByName(tenant);
    await runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec(PAST_TABLES.tenant?.[1] ?? "");
      storage.kv.put("schema:tenant", 2);
      storage.sql.exec("INSERT INTO revocation VALUES ('r', 'subject', 'alice', 'root', 1, NULL)");
    });
    await evictDurableObject(stub);
    const hers = await mint({ tenant, workspaces: ["w"], sub: "alice", scopes: ALL_OF_A_CLIENT });
    expect((await ask("GET", "/api/sessions", hers)).status).toBe(401);
    const root = actor(tenant, "root", ["tenant:admin"]);
    expect(await stub.listRevocations(root)).toMatchObject([{ id: "r", value: "alice", workspace: null }]);
  });
});
