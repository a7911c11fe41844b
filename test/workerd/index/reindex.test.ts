import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { tenantObject } from "../../../src/durable/objects.ts";
import type { ReindexProgress } from "../../../src/protocol/reindex.ts";
import {
  get,
  type Opened,
  openSession,
  prompt,
  send,
  sessionStub,
  workspaceName,
  workspaceStub,
} from "../fixtures.ts";
import { permissionRequest, questionRequest } from "../peers/agent.ts";
import { mint } from "../tokens.ts";
import { deleteSession, foreign, tarOf, upload } from "../transfer/fixtures.ts";
import { breakIndex, eventually, indexed } from "./fixtures.ts";

const restorers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const restore of restorers.splice(0)) await restore();
});

const admin = (workspace: string) =>
  mint({ workspaces: [workspace], scopes: ["session:read", "workspace:admin"], sub: "admin" });

async function progressOf(workspace: string): Promise<ReindexProgress> {
  const response = await get(`/api/admin/reindex?workspace=${workspace}`, await admin(workspace));
  expect(response.status).toBe(200);
  return response.json();
}

/** Orders the rebuilding of a workspace's index and waits for its end. */
async function reindex(workspace: string): Promise<ReindexProgress> {
  const response = await send("POST", "/api/admin/reindex", await admin(workspace), { workspace });
  expect(response.status).toBe(202);
  return eventually(async () => {
    await runDurableObjectAlarm(workspaceStub(workspace));
    const progress = await progressOf(workspace);
    return progress.state === "finished" && progress;
  });
}

/** A session that the index lists, with a permission and a question that wait. */
async function listed(): Promise<Opened> {
  const opened = await openSession();
  const { client, agent, sessionId, workspace } = opened;
  client.call("session/prompt", prompt(sessionId));
  await agent.line();
  agent.items(permissionRequest(7), questionRequest(8));
  await eventually(async () => (await rows(workspace)).questions.length > 0);
  return opened;
}

async function importInto(workspace: string, sessionId: string = crypto.randomUUID()): Promise<string> {
  const archive = await tarOf([
    ["events/000000000001.ndjson", `${foreign(sessionId, 1, { acpSessionId: null })}\n`],
  ]);
  expect((await upload(archive, { workspace })).status).toBe(201);
  return sessionId;
}

async function rows(workspace: string) {
  const read = async (table: string, order: string) =>
    (
      await env.INDEX.prepare(`SELECT * FROM ${table} WHERE workspace = ? ORDER BY ${order}`)
        .bind(workspace)
        .all()
    ).results;
  return {
    sessions: await read("sessions", "id"),
    permissions: await read("permissions", "session, seq"),
    questions: await read("questions", "session, seq"),
  };
}

async function loseIndex(workspace: string): Promise<void> {
  await env.INDEX.batch([
    env.INDEX.prepare("DELETE FROM sessions WHERE workspace = ?").bind(workspace),
    env.INDEX.prepare("DELETE FROM permissions WHERE workspace = ?").bind(workspace),
    env.INDEX.prepare("DELETE FROM questions WHERE workspace = ?").bind(workspace),
    env.INDEX.prepare("DELETE FROM workspaces WHERE id = ?").bind(workspace),
  ]);
}

describe("the index of a workspace", () => {
  test("is rebuilt after it was lost: opened and imported sessions, permissions and the workspace", async () => {
    const { workspace, sessionId } = await listed();
    const imported = await importInto(workspace);
    await eventually(async () => (await indexed(workspace)).sessions.includes(imported));
    const before = await rows(workspace);
    expect(before.sessions).toHaveLength(2);
    await loseIndex(workspace);
    expect(await reindex(workspace)).toMatchObject({ sessions: 2, removed: 0, failed: 0 });
    expect(await rows(workspace)).toEqual(before);
    expect(before.permissions).toHaveLength(1);
    expect(before.questions).toMatchObject([{ mode: "form", message: "Who are you?" }]);
    const own = await env.INDEX.prepare("SELECT id FROM workspaces WHERE id = ?").bind(workspace).all();
    expect(own.results).toEqual([{ id: workspace }]);
    // Repeating changes nothing.
    expect(await reindex(workspace)).toMatchObject({ sessions: 2, removed: 0, failed: 0 });
    expect(await rows(workspace)).toEqual(before);
    expect(sessionId).not.toBe(imported);
  });

  test("loses the rows of sessions that do not exist, and damaged rows are mended", async () => {
    const { workspace, sessionId } = await listed();
    const [ghost, waiting, asking] = [crypto.randomUUID(), crypto.randomUUID(), crypto.randomUUID()];
    const before = await rows(workspace);
    await env.INDEX.batch([
      env.INDEX.prepare(
        `INSERT INTO sessions (tenant, id, workspace, agent, cwd, client_cwd, state, created_at, updated_at, last_seq)
         VALUES ('acme', ?, ?, 'a', '/', '/', 'idle', '2026', '2026', 9)`,
      ).bind(ghost, workspace),
      env.INDEX.prepare(
        "INSERT INTO permissions (tenant, session, seq, workspace, requested_at) VALUES ('acme', ?, 1, ?, '2026')",
      ).bind(waiting, workspace),
      env.INDEX.prepare(
        "INSERT INTO questions (tenant, session, seq, workspace, mode, requested_at) VALUES ('acme', ?, 1, ?, 'form', '2026')",
      ).bind(asking, workspace),
      env.INDEX.prepare("UPDATE sessions SET last_seq = 1000000, title = 'wrong' WHERE id = ?").bind(
        sessionId,
      ),
    ]);
    expect(await reindex(workspace)).toMatchObject({ sessions: 1, removed: 3, failed: 0 });
    expect(await rows(workspace)).toEqual(before);
  });

  test("keeps the row of a session that was imported while its ghost was removed", async () => {
    const { workspace, sessionId } = await listed();
    const ghost = crypto.randomUUID();
    await env.INDEX.prepare(
      "INSERT INTO permissions (tenant, session, seq, workspace, requested_at) VALUES ('acme', ?, 1, ?, '2026')",
    )
      .bind(ghost, workspace)
      .run();
    const { batch } = env.INDEX;
    let isImported = false;
    // The first write of the rebuilding that begins with the removal of the ghost waits for the import.
    env.INDEX.batch = async (statements) => {
      const [first] = statements as unknown as { statement: string; params: unknown[] }[];
      if (!isImported && first?.statement.startsWith("DELETE") && first.params.includes(ghost)) {
        isImported = true;
        await importInto(workspace, ghost);
        await eventually(async () => (await indexed(workspace)).sessions.includes(ghost));
      }
      return batch.call(env.INDEX, statements) as never;
    };
    restorers.push(async () => {
      env.INDEX.batch = batch;
    });
    expect(await reindex(workspace)).toMatchObject({ sessions: 2, removed: 0, failed: 0 });
    expect(isImported).toBe(true);
    expect(await indexed(workspace)).toEqual({
      sessions: [ghost, sessionId].sort(),
      permissions: [sessionId],
    });
  });

  test("takes over sessions from before their workspace knew them", async () => {
    const { workspace, sessionId } = await listed();
    await runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
      storage.kv.delete(`session:${sessionId}`);
    });
    await reindex(workspace);
    await loseIndex(workspace);
    expect(await reindex(workspace)).toMatchObject({ sessions: 1 });
    expect((await indexed(workspace)).sessions).toEqual([sessionId]);
  });

  test("is rebuilt as soon as D1 can be reached", async () => {
    const { workspace, sessionId } = await listed();
    await loseIndex(workspace);
    const restore = await breakIndex();
    restorers.push(restore);
    const response = await send("POST", "/api/admin/reindex", await admin(workspace), { workspace });
    expect(response.status).toBe(202);
    await runDurableObjectAlarm(workspaceStub(workspace));
    expect(await progressOf(workspace)).toMatchObject({ state: "running", sessions: 0 });
    await restore();
    restorers.pop();
    await eventually(async () => {
      await runDurableObjectAlarm(workspaceStub(workspace));
      return (await progressOf(workspace)).state === "finished";
    });
    expect((await indexed(workspace)).sessions).toEqual([sessionId]);
  });

  test("knows no deleted session", async () => {
    const { workspace, sessionId } = await listed();
    await deleteSession(sessionId);
    expect(await reindex(workspace)).toMatchObject({ sessions: 0, removed: 0, failed: 0 });
  });

  test("is rebuilt page by page", async () => {
    const workspace = workspaceName();
    const ids: string[] = [];
    for (let n = 0; n < 45; n += 1) ids.push(await importInto(workspace));
    await eventually(async () => (await indexed(workspace)).sessions.length === 45);
    await loseIndex(workspace);
    expect(await reindex(workspace)).toMatchObject({ sessions: 45, removed: 0, failed: 0 });
    expect((await indexed(workspace)).sessions).toEqual(ids.sort());
  });

  test("is not rebuilt for a workspace that does not exist, and no trace of the order is left", async () => {
    const workspace = workspaceName();
    const response = await send("POST", "/api/admin/reindex", await admin(workspace), { workspace });
    expect(response.status).toBe(404);
    const keys = await runInDurableObject(workspaceStub(workspace), (_, { storage }) => [
      ...storage.kv.list(),
    ]);
    expect(keys).toEqual([]);
  });
});

test("the index of a tenant is rebuilt from the names of its workspaces, and the order is audited", async () => {
  const places = [await listed(), await listed()];
  const bearer = await mint({ workspaces: ["*"], scopes: ["session:read", "tenant:admin"], sub: "boss" });
  for (const { workspace } of places) {
    await eventually(async () => {
      await runDurableObjectAlarm(workspaceStub(workspace));
      const names = await runInDurableObject(tenantObject(env, "acme"), (_, { storage }) =>
        storage.kv.get(`workspace:${workspace}`),
      );
      return names === true;
    });
    await loseIndex(workspace);
  }
  const ordered = await send("POST", "/api/admin/reindex", bearer, {});
  expect(ordered.status).toBe(202);
  const progress = await eventually(async () => {
    await runDurableObjectAlarm(tenantObject(env, "acme"));
    for (const { workspace } of places) await runDurableObjectAlarm(workspaceStub(workspace));
    const found: ReindexProgress = await (await get("/api/admin/reindex", bearer)).json();
    return found.state === "finished" && found;
  });
  expect(progress.workspaces).toBeGreaterThanOrEqual(2);
  for (const { workspace, sessionId } of places)
    expect(await indexed(workspace)).toEqual({ sessions: [sessionId], permissions: [sessionId] });
  const audited: { entries: { subject: string }[] } = await (
    await get("/api/audit?kind=index.rebuilt", bearer)
  ).json();
  expect(audited.entries.map(({ subject }) => subject)).toContain("boss");
  expect(await sessionStub(places[0]?.sessionId ?? "").reindex("elsewhere")).toBe("elsewhere");
});
