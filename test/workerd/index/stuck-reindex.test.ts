import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { tenantObject } from "../../../src/durable/objects.ts";
import type { ReindexProgress } from "../../../src/protocol/reindex.ts";
import { sessionStub, workspaceName, workspaceStub } from "../fixtures.ts";
import { foreign, OWNER, tarOf, upload } from "../transfer/fixtures.ts";
import { breakIndex, eventually, indexed } from "./fixtures.ts";

const DAY = 24 * 60 * 60_000;
const ADMIN = { ...OWNER, scopes: ["tenant:admin" as const] };

/** A method of an instance is no method of its object: calls of it fail from now on. */
async function breakMethod(stub: DurableObjectStub, method: string): Promise<void> {
  await runInDurableObject(stub, (instance) => void Object.assign(instance, { [method]: "out of reach" }));
}

/** Makes the deadline due and runs it, as if its pause had passed. */
async function ring(stub: DurableObjectStub): Promise<void> {
  await runInDurableObject(stub, (_, { storage }) => {
    storage.sql.exec("UPDATE deadline SET at = 1 WHERE name = 'reindex'");
  });
  await runDurableObjectAlarm(stub);
}

/** How long the object waits before it goes on. */
function pauseOf(stub: DurableObjectStub): Promise<number> {
  return runInDurableObject(stub, (_, { storage }) => {
    const { at } = storage.sql.exec<{ at: number }>("SELECT at FROM deadline WHERE name = 'reindex'").one();
    return at - Date.now();
  });
}

async function importInto(workspace: string): Promise<string> {
  const sessionId = crypto.randomUUID();
  const archive = await tarOf([
    ["events/000000000001.ndjson", `${foreign(sessionId, 1, { acpSessionId: null })}\n`],
  ]);
  expect((await upload(archive, { workspace })).status).toBe(201);
  await eventually(async () => (await indexed(workspace)).sessions.includes(sessionId));
  return sessionId;
}

function order(workspace: string): Promise<ReindexProgress | null> {
  return workspaceStub(workspace).startReindex(ADMIN, workspace);
}

/** Rings until the work is finished; undefined if it does not end. */
async function finished(workspace: string, rings = 30): Promise<ReindexProgress | undefined> {
  for (let i = 0; i < rings; i += 1) {
    await ring(workspaceStub(workspace));
    const progress = await workspaceStub(workspace).reindexProgress(ADMIN);
    if (progress.state === "finished") return progress;
  }
  return undefined;
}

afterEach(() => {
  vi.useRealTimers();
});

/** The platform's own alarms come no more: the time of the objects is a day ahead. */
function stopAlarms(): void {
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + DAY);
}

describe("the rebuilding of the index of a workspace", () => {
  test("ends although its only session cannot be read", async () => {
    const workspace = workspaceName();
    await breakMethod(sessionStub(await importInto(workspace)), "reindex");
    await order(workspace);
    expect(await finished(workspace)).toMatchObject({ sessions: 0, failed: 1 });
  });

  test("goes on behind a page of sessions that cannot be read", async () => {
    const workspace = workspaceName();
    const ids: string[] = [];
    for (let i = 0; i < 21; i += 1) ids.push(await importInto(workspace));
    const last = ids.sort().pop() as string;
    for (const id of ids) await breakMethod(sessionStub(id), "reindex");
    await order(workspace);
    expect(await finished(workspace)).toMatchObject({ sessions: 1, failed: 20 });
    expect((await indexed(workspace)).sessions).toContain(last);
  });

  test("begins anew at a new order while the old one makes no progress", async () => {
    const workspace = workspaceName();
    await importInto(workspace);
    stopAlarms();
    const stored = () =>
      runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
        storage.sql.exec<{ value: string }>("SELECT value FROM setting WHERE name = 'reindex'").one(),
      );
    const current = async () => (JSON.parse((await stored()).value) as { order: string }).order;
    await order(workspace);
    const first = await current();
    // An order at work is not disturbed.
    await order(workspace);
    expect(await current()).toBe(first);
    const restore = await breakIndex();
    await ring(workspaceStub(workspace)).finally(restore);
    await order(workspace);
    expect(await current()).not.toBe(first);
    expect(await finished(workspace)).toMatchObject({ sessions: 1, failed: 0 });
  });
});

describe("the rebuilding of the index of a tenant", () => {
  async function stuckTenant() {
    stopAlarms();
    const tenant = `t-${crypto.randomUUID()}`;
    const workspace = workspaceName();
    const object = tenantObject(env, tenant);
    const admin = { ...ADMIN, tenant };
    await object.enrollWorkspace(workspace);
    await breakMethod(workspaceStub(workspace, tenant), "reindexFor");
    await object.startReindex(admin);
    // The two lists of the index are empty.
    for (let i = 0; i < 2; i += 1) await ring(object);
    return { object, admin };
  }

  test("asks a workspace that does not end less and less often, and then counts it as failed", async () => {
    const { object, admin } = await stuckTenant();
    await ring(object);
    expect(await pauseOf(object)).toBe(500);
    for (let i = 0; i < 15; i += 1) await ring(object);
    expect(await pauseOf(object)).toBe(30_000);
    for (let i = 0; i < 4; i += 1) await ring(object);
    expect(await object.reindexProgress(admin)).toMatchObject({ state: "finished", failed: 1 });
  });

  test("begins anew at a new order when the old one has not moved for long", async () => {
    const { object, admin } = await stuckTenant();
    for (let i = 0; i < 3; i += 1) await ring(object);
    vi.setSystemTime(Date.now() + 60_000);
    const { startedAt } = await object.startReindex(admin);
    expect((await object.startReindex(admin)).startedAt).toBe(startedAt);
    vi.setSystemTime(Date.now() + 11 * 60_000);
    const again = await object.startReindex(admin);
    expect([startedAt === again.startedAt, again.state]).toEqual([false, "running"]);
  });
});
