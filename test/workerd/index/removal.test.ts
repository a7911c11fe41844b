import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import {
  get,
  type Opened,
  openSession,
  prompt,
  sessionStub,
  workspaceName,
  workspaceStub,
} from "../fixtures.ts";
import { permissionRequest } from "../peers/agent.ts";
import { token } from "../tokens.ts";
import { deleteSession, foreign, OWNER, tarOf, upload } from "../transfer/fixtures.ts";
import { breakIndex, eventually, indexed } from "./fixtures.ts";

const restorers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const restore of restorers.splice(0)) await restore();
});

/** A session that the index lists, with a permission that waits. */
async function listed(): Promise<Opened> {
  const opened = await openSession();
  const { client, agent, sessionId, workspace } = opened;
  client.call("session/prompt", prompt(sessionId));
  await agent.line();
  agent.items(permissionRequest(7));
  await eventually(async () => (await indexed(workspace)).permissions.length > 0);
  return opened;
}

type Stored = { keys: string[]; tables: string[]; rows: number };

/** Keys and tables of the session's object, and how many rows the tables have. */
function stored({ sessionId }: Opened): Promise<Stored> {
  return runInDurableObject(sessionStub(sessionId), (_, { storage: { kv, sql } }) => {
    const tables = sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 1) <> '_' AND name NOT LIKE 'sqlite%'",
      )
      .toArray()
      .map(({ name }) => name);
    const counts = tables.map((name) => sql.exec<{ n: number }>(`SELECT count(*) AS n FROM ${name}`).one().n);
    const rows = counts.reduce((sum, n) => sum + n, 0);
    return { keys: [...kv.list()].map(([key]) => key), tables, rows };
  });
}

const NOTHING: Stored = { keys: [], tables: [], rows: 0 };
/** The tables may stay, without any row. */
const ORDER_ALONE = { keys: ["removal", "schema:session"], rows: 0 };

describe("a deleted session", () => {
  test("leaves nothing in the index and in its object", async () => {
    const opened = await listed();
    await deleteSession(opened.sessionId);
    expect(await indexed(opened.workspace)).toEqual({ sessions: [], permissions: [] });
    expect(await stored(opened)).toEqual(NOTHING);
  });

  test("leaves the index as soon as the index can be reached, also after evictions", async () => {
    const opened = await listed();
    const { sessionId, workspace } = opened;
    const restore = await breakIndex();
    restorers.push(restore);
    await deleteSession(opened.sessionId);
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(404);
    expect(await stored(opened)).toMatchObject(ORDER_ALONE);
    await evictDurableObject(sessionStub(sessionId));
    expect(await runDurableObjectAlarm(sessionStub(sessionId))).toBe(true);
    await evictDurableObject(sessionStub(sessionId));
    await restore();
    restorers.pop();
    expect((await indexed(workspace)).sessions).toEqual([sessionId]);
    expect(await runDurableObjectAlarm(sessionStub(sessionId))).toBe(true);
    expect(await indexed(workspace)).toEqual({ sessions: [], permissions: [] });
    expect(await stored(opened)).toEqual(NOTHING);
    expect(await runDurableObjectAlarm(sessionStub(sessionId))).toBe(false);
  });

  test("leaves the index although its object ended as soon as the history was deleted", async () => {
    const opened = await listed();
    const { sessionId, workspace } = opened;
    const restore = await breakIndex();
    restorers.push(restore);
    await runInDurableObject(sessionStub(sessionId), (_, ctx) => {
      const deleteAll = ctx.storage.deleteAll.bind(ctx.storage);
      ctx.storage.deleteAll = async () => {
        await deleteAll();
        await ctx.storage.sync();
        ctx.abort("ended by a test");
      };
    });
    await deleteSession(sessionId).catch(() => {});
    await runInDurableObject(sessionStub(sessionId), (_, ctx) => ctx.abort("ended by a test")).catch(
      () => {},
    );
    expect(await stored(opened)).toMatchObject(ORDER_ALONE);
    await restore();
    restorers.pop();
    expect(await runDurableObjectAlarm(sessionStub(sessionId))).toBe(true);
    expect(await indexed(workspace)).toEqual({ sessions: [], permissions: [] });
    expect(await stored(opened)).toEqual(NOTHING);
  });

  test("makes room for another session of its id, although its object ended before it began", async () => {
    const { sessionId, workspace } = await listed();
    await runInDurableObject(sessionStub(sessionId), (_, ctx) => {
      const order = { tenant: "acme", workspace, sessionId, lastSeq: 9, failures: 0 };
      ctx.storage.kv.delete("owner");
      ctx.storage.kv.put("removal", order);
      return ctx.storage.setAlarm(Date.now() + 60_000);
    });
    await evictDurableObject(sessionStub(sessionId));
    await runDurableObjectAlarm(sessionStub(sessionId));
    const archive = await tarOf([
      ["events/000000000001.ndjson", `${foreign(sessionId, 1, { acpSessionId: null })}\n`],
    ]);
    expect((await upload(archive, { workspace })).status).toBe(201);
    await eventually(async () => (await indexed(workspace)).sessions.includes(sessionId));
  });

  test("keeps its id to itself until it has left the index", async () => {
    const opened = await listed();
    const { sessionId, workspace } = opened;
    const archive = await tarOf([
      ["events/000000000001.ndjson", `${foreign(sessionId, 1, { acpSessionId: null })}\n`],
    ]);
    const restore = await breakIndex();
    restorers.push(restore);
    await deleteSession(opened.sessionId);
    const refused = await upload(archive, { workspace });
    expect(refused.status).toBe(409);
    expect(JSON.stringify(refused.json)).toContain("is being deleted");
    await restore();
    restorers.pop();
    await runDurableObjectAlarm(sessionStub(sessionId));
    expect((await upload(archive, { workspace })).status).toBe(201);
    await eventually(async () => (await indexed(workspace)).sessions.includes(sessionId));
  });

  test("is forgotten by its workspace, although the workspace was out of reach", async () => {
    const { sessionId, workspace } = await openSession();
    const inWorkspace = (change: (workspaceState: { release?: unknown }) => void) =>
      runInDurableObject(workspaceStub(workspace), (instance) => change(instance as { release?: unknown }));
    await inWorkspace((workspaceState) => {
      workspaceState.release = () => {
        throw new Error("out of reach");
      };
    });
    await deleteSession(sessionId);
    await inWorkspace((workspaceState) => {
      delete workspaceState.release;
    });
    await runDurableObjectAlarm(sessionStub(sessionId));
    const placed = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      storage.sql.exec("SELECT session FROM placement").toArray(),
    );
    expect(placed).toEqual([]);
  });

  test("is not brought back by a write of its row that was under way, however long that takes", async () => {
    const opened = await listed();
    const { sessionId, workspace } = opened;
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    // The write of the row waits in D1 while the session is deleted.
    const { batch } = env.INDEX;
    let isHeld = false;
    env.INDEX.batch = async (statements) => {
      if (!isHeld) {
        isHeld = true;
        await held;
      }
      return batch.call(env.INDEX, statements) as never;
    };
    try {
      opened.agent.items(permissionRequest(8));
      await eventually(async () => isHeld);
      const removing = deleteSession(sessionId);
      await eventually(async () => (await stored(opened)).keys.includes("removal"));
      // The alarm that repeats the removal comes while the write is still under way.
      const rung = runDurableObjectAlarm(sessionStub(sessionId));
      await stored(opened);
      release();
      await Promise.all([removing, rung]);
    } finally {
      env.INDEX.batch = batch;
    }
    expect(await indexed(workspace)).toEqual({ sessions: [], permissions: [] });
  });
});

test("a revoked session leaves the index as soon as the index can be reached", async () => {
  const { sessionId, workspace } = await listed();
  const restore = await breakIndex();
  restorers.push(restore);
  const revoked = await sessionStub(sessionId).revoke({ ...OWNER, scopes: ["tenant:admin"] });
  expect(revoked).toMatchObject({ ok: true });
  await restore();
  restorers.pop();
  expect((await indexed(workspace)).sessions).toEqual([sessionId]);
  await runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    storage.sql.exec("UPDATE deadline SET at = 1 WHERE name = 'index'");
  });
  await runDurableObjectAlarm(sessionStub(sessionId));
  expect(await indexed(workspace)).toEqual({ sessions: [], permissions: [] });
});

test("a session is listed although its workspace cannot take it into its list, which is tried again", async () => {
  const workspace = workspaceName();
  const broken = "out of reach";
  // A method of an instance is no method of its object: calls of it fail.
  const inWorkspace = (change: (instance: object) => void) =>
    runInDurableObject(workspaceStub(workspace), (instance) => change(instance));
  await inWorkspace((instance) => void Object.assign(instance, { enroll: broken }));
  const sessionId = crypto.randomUUID();
  const line = `${foreign(sessionId, 1, { acpSessionId: null })}\n`;
  expect((await upload(await tarOf([["events/000000000001.ndjson", line]]), { workspace })).status).toBe(201);
  await eventually(async () => (await indexed(workspace)).sessions.includes(sessionId));
  await inWorkspace((instance) => void Reflect.deleteProperty(instance, "enroll"));
  await eventually(async () => {
    await runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
      storage.sql.exec("UPDATE deadline SET at = 1 WHERE name = 'index'");
    });
    await runDurableObjectAlarm(sessionStub(sessionId));
    return runInDurableObject(
      workspaceStub(workspace),
      (_, { storage }) => storage.kv.get(`session:${sessionId}`) === true,
    );
  });
});
