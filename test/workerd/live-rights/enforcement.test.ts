import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import type { CreatedRevocation } from "../../../src/protocol/rest-tenant.ts";
import {
  connectionStub,
  holdUp,
  openSession,
  sessionStub,
  socketsOf,
  subjectStub,
  workspaceName,
} from "../fixtures.ts";
import { setLimitsOf } from "../limits.ts";
import { Peer } from "../peers/peer.ts";
import { mint, WORKSPACE_ADMIN } from "../tokens.ts";
import { receiveWebhooks } from "../webhooks/fixtures.ts";
import { admin, ask, connect } from "./fixtures.ts";

receiveWebhooks();

const tenant = () => env.TENANT_DO.getByName("acme");

async function order(what: object): Promise<CreatedRevocation> {
  const response = await ask("POST", "/api/revocations", await admin({ workspaces: ["*"] }), what);
  expect(response.status).toBe(201);
  return response.json();
}

const registered = async (subject: string) => (await socketsOf(subject)).length;

describe("the answer to a revocation", () => {
  test("says everything that it has found", async () => {
    const { workspace, sessionId, agent, client } = await openSession();
    const sub = crypto.randomUUID();
    const bearer = await mint({ workspaces: [workspace], sub, scopes: WORKSPACE_ADMIN });
    const made = async (path: string, body: object) =>
      (await (await ask("POST", path, bearer, body)).json()) as { id: string };
    const share = await made("/api/shares", { session: sessionId });
    const hook = await made(`/api/workspaces/${workspace}/webhooks`, { url: "https://receiver.test/" });
    agent.items(
      JSON.stringify({
        ...{ jsonrpc: "2.0", id: 7, method: "session/request_permission" },
        params: {
          ...{ sessionId: "agent-session", toolCall: { toolCallId: "t" } },
          options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
        },
      }),
    );
    const { id: permission } = await client.takeJson();
    const links = await made(`/api/permissions/${permission}/links`, {});
    await connect(bearer);
    const host = await mint({ workspaces: [workspace], sub, scopes: ["host"] });
    await Peer.connect("/host/control", host);
    expect(await registered(sub)).toBe(1);

    const { reached } = await order({ subject: sub });
    expect(reached).toEqual({
      shares: [share.id],
      answerLinks: [links.id],
      webhooks: [{ workspace, id: hook.id }],
      ...{ sockets: 1, hosts: 1, unconfirmed: 0 },
    });
    expect(await registered(sub)).toBe(0);
    const { shares } = (await (
      await ask("GET", "/api/shares", await admin({ workspaces: ["*"] }))
    ).json()) as {
      shares: { id: string; suspended: boolean }[];
    };
    expect(shares.find(({ id }) => id === share.id)).toMatchObject({ suspended: true });
  });

  test("counts the links and readers of a revoked session", async () => {
    const { workspace, sessionId } = await openSession();
    const bearer = await mint({ workspaces: [workspace], scopes: WORKSPACE_ADMIN });
    const share = (await (await ask("POST", "/api/shares", bearer, { session: sessionId })).json()) as {
      id: string;
    };
    const { reached } = await order({ session: sessionId });
    expect(reached).toEqual({
      ...{ shares: [share.id], answerLinks: [], webhooks: [] },
      ...{ sockets: 1, hosts: 0, unconfirmed: 0 },
    });
  });
});

/** Lets an object repeat the orders that are not confirmed. */
async function repeat(object: DurableObjectStub): Promise<void> {
  await runInDurableObject(object, async (instance, { storage }) => {
    storage.sql.exec("INSERT OR REPLACE INTO deadline (name, at) VALUES ('enforcement', 0)");
    await instance.alarm?.();
  });
}

async function isRepeatDue(object: DurableObjectStub): Promise<boolean> {
  return runInDurableObject(object, (_, { storage }) => {
    return storage.sql.exec("SELECT 1 FROM deadline WHERE name = 'enforcement'").toArray().length === 1;
  });
}

describe("a revocation whose sockets do not confirm in time", () => {
  async function connected() {
    const sub = crypto.randomUUID();
    const made = await connect(await mint({ workspaces: [workspaceName()], sub }));
    expect(await registered(sub)).toBe(1);
    return { ...made, sub };
  }

  test("says so, and goes on until they do", async () => {
    await setLimitsOf("acme", { revocationWaitMs: 50 });
    const { client, connection, sub } = await connected();
    const release = await holdUp(connectionStub(connection));
    const { reached } = await order({ subject: sub });
    expect(reached).toMatchObject({ sockets: 1, unconfirmed: 1 });
    expect(await registered(sub)).toBe(1);
    await repeat(subjectStub(sub));
    expect(await isRepeatDue(subjectStub(sub))).toBe(true);
    expect(await registered(sub)).toBe(1);
    await release();
    expect(await client.closed).toMatchObject({ code: 4401 });
    await repeat(subjectStub(sub));
    expect(await registered(sub)).toBe(0);
    expect(await isRepeatDue(subjectStub(sub))).toBe(false);
  });

  test("also ends the clients of a session as soon as they can be reached", async () => {
    await setLimitsOf("acme", { revocationWaitMs: 50 });
    const { sessionId, workspace } = await openSession();
    const sub = crypto.randomUUID();
    const { client, connection } = await connect(await mint({ workspaces: [workspace], sub }));
    await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    const release = await holdUp(connectionStub(connection));
    const { reached } = await order({ session: sessionId });
    expect(reached).toMatchObject({ sockets: 2, unconfirmed: 1 });
    await repeat(tenant());
    expect(await isRepeatDue(tenant())).toBe(true);
    expect(await registered(sub)).toBe(1);
    await release();
    expect(await client.closed).toMatchObject({ code: 4401, reason: "session revoked" });
    await repeat(tenant());
    await vi.waitFor(async () => expect(await registered(sub)).toBe(0));
    expect(await isRepeatDue(tenant())).toBe(false);
  });

  test("reaches a subject's object that did not respond to its tenant, as soon as it does", async () => {
    await setLimitsOf("acme", { revocationWaitMs: 50 });
    const { client, sub } = await connected();
    const release = await holdUp(subjectStub(sub));
    const { reached } = await order({ subject: sub });
    expect(reached).toMatchObject({ sockets: 0, unconfirmed: 1 });
    await repeat(tenant());
    expect(await isRepeatDue(tenant())).toBe(true);
    await release();
    await repeat(tenant());
    expect(await client.closed).toMatchObject({ code: 4401, reason: "token revoked" });
    expect(await isRepeatDue(tenant())).toBe(false);
  });

  test("is not made while the session that it is about does not respond", async () => {
    await setLimitsOf("acme", { revocationWaitMs: 50 });
    const { sessionId } = await openSession();
    const release = await holdUp(sessionStub(sessionId));
    const bearer = await admin({ workspaces: ["*"] });
    const response = await ask("POST", "/api/revocations", bearer, { session: sessionId });
    expect(response.status).toBe(503);
    await release();
    expect((await order({ session: sessionId })).value).toBe(sessionId);
  });

  test.each(["the tenant's", "the subject's"] as const)(
    "is carried out although %s object was replaced in between",
    async (whose) => {
      const { client, sub } = await connected();
      const object = whose === "the tenant's" ? tenant() : subjectStub(sub);
      await runInDurableObject(object, (_, { storage: { sql } }) => {
        if (whose === "the subject's") return void sql.exec("UPDATE socket SET isEnding = 1");
        sql.exec(
          "INSERT INTO revocation (id, kind, value, workspace, by_subject, at) VALUES (?, 'subject', ?, '', 'x', 1)",
          ...[crypto.randomUUID(), sub],
        );
        sql.exec("INSERT OR REPLACE INTO subject_order (subject, changes, endsAll) VALUES (?, 1, 0)", sub);
      });
      await evictDurableObject(object);
      await repeat(object);
      expect(await client.closed).toMatchObject({ code: 4401, reason: "token revoked" });
      expect(await registered(sub)).toBe(0);
    },
  );

  test("gives up a socket whose lease has ended", async () => {
    const { sub } = await connected();
    const id = crypto.randomUUID();
    await runInDurableObject(subjectStub(sub), (_, { storage }) => {
      storage.sql.exec(
        "INSERT INTO socket (id, kind, holder, name, lease, isEnding) VALUES (?, 'client', 'connection', ?, 1, 1)",
        ...[id, id],
      );
    });
    await repeat(subjectStub(sub));
    expect(await socketsOf(sub)).not.toContain(id);
    expect(await isRepeatDue(subjectStub(sub))).toBe(false);
  });
});
