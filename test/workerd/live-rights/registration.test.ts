import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { RESUMABLE } from "../../../src/protocol/resumable-wire.ts";
import type { SubjectState } from "../../../src/tenant/subject/subject-state.ts";
import { connectionStub, openSession, socketsOf, subjectStub, workspaceName } from "../fixtures.ts";
import type { Peer } from "../peers/peer.ts";
import { Resumable } from "../peers/resumable-client.ts";
import { mint } from "../tokens.ts";
import { connect, fakeTime } from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Somebody whose object throws when a socket enters, until it is repaired. */
function fallibleSubject() {
  const [tenant, subject] = [crypto.randomUUID(), crypto.randomUUID()];
  const stub = subjectStub(subject, tenant);
  const errors = vi.spyOn(console, "error").mockImplementation(() => {});
  const rename = (from: string, to: string) =>
    runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec(`ALTER TABLE ${from} RENAME TO ${to}`);
    });
  return {
    ...{ tenant, subject, claims: { tenant, sub: subject, workspaces: [workspaceName()] } },
    break: () => rename("socket", "elsewhere"),
    repair: () => rename("elsewhere", "socket"),
    /** All attempts of a registration have failed. */
    hasFailed: () =>
      vi.waitFor(() =>
        expect(errors.mock.calls).toContainEqual([
          "socket not registered",
          expect.objectContaining({ kind: "client" }),
        ]),
      ),
    registered: async () => (await socketsOf(subject, tenant)).length,
    revoke: () =>
      env.TENANT_DO.getByName(tenant).revoke(
        { tenant, subject: "root", workspaces: ["*"], scopes: ["tenant:admin"], expires: 0 },
        { kind: "subject", value: subject, workspace: null, until: null },
      ),
  };
}

type Someone = ReturnType<typeof fallibleSubject>;

/** Serves the deadline for the next attempt, which must be set. */
async function retry(holder: DurableObjectStub): Promise<void> {
  await vi.waitFor(() =>
    runInDurableObject(holder, (_, { storage }) => {
      const due = "UPDATE deadline SET at = 1 WHERE name = 'registration' RETURNING 1";
      expect(storage.sql.exec(due).toArray()).toHaveLength(1);
      for (const [key, stored] of storage.kv.list<{ renewAt: number }>({ prefix: "socket:" }))
        storage.kv.put(key, { ...stored, renewAt: 1 });
    }),
  );
  await runDurableObjectAlarm(holder);
}

/** A client with a renewed token that the subject's object has not registered yet. */
async function renewed(
  someone: Someone,
): Promise<{ peer: Peer; holder: ReturnType<typeof connectionStub>; connection: string }> {
  const { client, connection } = await connect(await mint(someone.claims));
  await subjectStub(someone.subject, someone.tenant).leave(connection);
  await someone.break();
  const token = await mint({ ...someone.claims, exp: 7200 });
  expect((await client.request("_acp-edge/renew", { token })).response).toHaveProperty("result");
  await someone.hasFailed();
  return { peer: client, holder: connectionStub(connection), connection };
}

describe("[I11] a client's socket with a renewed token", () => {
  test("stays while its subject's object fails, and is registered later", async () => {
    const someone = fallibleSubject();
    const { peer, holder } = await renewed(someone);
    await retry(holder);
    expect(peer.socket.readyState).toBe(WebSocket.READY_STATE_OPEN);
    await someone.repair();
    expect(await someone.registered()).toBe(0);
    await retry(holder);
    expect(await someone.registered()).toBe(1);
    await someone.revoke();
    expect(await peer.closed).toMatchObject({ code: 4401, reason: "token revoked" });
  });

  test("closes when its subject's object answers that it was revoked meanwhile", async () => {
    const someone = fallibleSubject();
    const { peer, holder } = await renewed(someone);
    await someone.repair();
    await someone.revoke();
    expect(peer.socket.readyState).toBe(WebSocket.READY_STATE_OPEN);
    await retry(holder);
    expect(await peer.closed).toMatchObject({ code: 4401, reason: "token revoked" });
  });
});

describe("[I11] while the object of a subject fails", () => {
  const ask = (path: string, bearer: string, headers: Record<string, string> = {}) =>
    exports.default.fetch(`https://edge.test${path}`, {
      headers: { Authorization: `Bearer ${bearer}`, ...headers },
    });

  test.each([
    ["a socket", { Upgrade: "websocket" }],
    ["a resumable socket", { Upgrade: "websocket", "Sec-WebSocket-Protocol": RESUMABLE }],
  ])("%s is answered with 503 and a time to retry, never with 401", async (_, headers) => {
    const someone = fallibleSubject();
    const bearer = await mint(someone.claims);
    expect((await ask("/api/sessions", bearer)).status).toBe(200);
    await someone.break();
    const refused = await ask("/acp", bearer, headers);
    expect([refused.status, refused.headers.get("Retry-After")]).toEqual([503, "1"]);
    await someone.repair();
    const opened = await ask("/acp", bearer, headers);
    expect(opened.status).toBe(101);
    opened.webSocket?.accept();
  });

  test("a request and a host are answered with 503 and a time to retry, never with 401", async () => {
    const { workspace, sessionId } = await openSession();
    const sub = crypto.randomUUID();
    vi.spyOn(console, "error").mockImplementation(() => {});
    await runInDurableObject(subjectStub(sub), (instance) => {
      vi.spyOn(instance as unknown as Pick<SubjectState, "isRevoked">, "isRevoked").mockRejectedValue(
        new Error("overloaded"),
      );
    });
    const client = await mint({ workspaces: [workspace], sub });
    const host = await mint({ workspaces: [workspace], sub, scopes: ["host"] });
    for (const response of [
      await ask("/api/sessions", client),
      await ask("/host/control", host, { Upgrade: "websocket" }),
      await ask(`/host/sessions/${sessionId}`, host, { Upgrade: "websocket" }),
    ])
      expect([response.status, response.headers.get("Retry-After")]).toEqual([503, "1"]);
  });

  test("a client that comes back with the token that it had is let in, and asks nobody", async () => {
    const someone = fallibleSubject();
    const bearer = await mint({ ...someone.claims, jti: crypto.randomUUID() });
    const client = await Resumable.open(someone.claims.workspaces[0] as string, { bearer });
    client.peer.socket.close(4000, "cut");
    await someone.break();
    expect((await client.upgrade()).status).toBe(101);
  });
});

describe("a lease", () => {
  test("is renewed while the socket lives, and costs a call in hours", async () => {
    fakeTime();
    const someone = fallibleSubject();
    const { connection } = await connect(await mint({ ...someone.claims, exp: 7 * 24 * 3600 }));
    const leaseOf = () =>
      runInDurableObject(subjectStub(someone.subject, someone.tenant), (_, { storage }) => {
        const row = storage.sql.exec<{ lease: number }>("SELECT lease FROM socket WHERE id = ?", connection);
        return row.one().lease;
      });
    const first = await leaseOf();
    expect(first - Date.now()).toBeGreaterThan(6 * 3600_000);
    vi.setSystemTime(Date.now() + 5 * 3600_000);
    await retry(connectionStub(connection));
    expect(await leaseOf()).toBeGreaterThanOrEqual(first + 5 * 3600_000);
  });

  test("is signed off, with everything the connection had, when a reset took the socket", async () => {
    const someone = fallibleSubject();
    const bearer = await mint(someone.claims);
    for (let round = 0; round < 3; round += 1) {
      const clients = await Promise.all(Array.from({ length: 5 }, () => connect(bearer)));
      expect(await someone.registered()).toBe(5);
      for (const { connection } of clients) {
        const stub = connectionStub(connection);
        await runInDurableObject(stub, (_, state) => state.abort("reset")).catch(() => {});
        await runDurableObjectAlarm(connectionStub(connection));
        const left = await runInDurableObject(connectionStub(connection), async (_, { storage }) => [
          ...(await storage.list()),
          await storage.getAlarm(),
        ]);
        expect(left).toEqual([null]);
      }
      expect(await someone.registered()).toBe(0);
    }
  });

  test("of a client that stays away is signed off, and the client comes back all the same", async () => {
    const someone = fallibleSubject();
    const bearer = await mint(someone.claims);
    const client = await Resumable.open(someone.claims.workspaces[0] as string, { bearer });
    client.peer.socket.close(4000, "cut");
    await vi.waitFor(async () => {
      await retry(connectionStub(client.connection));
      expect(await someone.registered()).toBe(0);
    });
    expect((await client.upgrade()).status).toBe(101);
    expect(await someone.registered()).toBe(1);
  });
});
