import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { MetaKey } from "../../src/protocol/extensions.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { changeArchive } from "./archive-bucket.ts";
import { events, eventsText, get, type Opened, openSession, prompt, sessionStub, texts } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { linkTo } from "./readers/fixtures.ts";
import { token } from "./tokens.ts";

const DAY = 24 * 60 * 60 * 1000;

type Resting = Opened & { sent: string[] };

/** A session with one turn whose agent has ended. */
async function restingSession(params: object = {}): Promise<Resting> {
  const opened = await openSession({ loadSession: true });
  const { client, agent, sessionId } = opened;
  const id = client.call("session/prompt", { ...prompt(sessionId), ...params });
  const line = await agent.line();
  const sent = Array.from({ length: 40 }, (_, i) => `word ${i} `);
  agent.items(...sent.map((text) => updateText(text)));
  agent.answer(line, { stopReason: "end_turn" });
  await client.until(id);
  agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
  await agent.durable();
  await vi.waitUntil(async () => (await deadlines(sessionId)).includes("rest"));
  return { ...opened, sent };
}

const deadlines = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, { storage }) =>
    storage.sql
      .exec<{ name: string }>("SELECT name FROM deadline")
      .toArray()
      .map(({ name }) => name),
  );

const attached = (sessionId: string) =>
  runInDurableObject(
    sessionStub(sessionId),
    (_, { storage }) => storage.sql.exec("SELECT 1 FROM client").toArray().length,
  );

/** Lets the time at rest pass, as far as the session can see. */
async function pass(sessionId: string): Promise<void> {
  vi.setSystemTime(Date.now() + 31 * DAY);
  try {
    await ring(sessionId);
  } finally {
    vi.useRealTimers();
  }
}

/** Makes the deadline of the rest due. */
async function ring(sessionId: string): Promise<void> {
  await runInDurableObject(sessionStub(sessionId), async (_, { storage }) => {
    storage.sql.exec("UPDATE deadline SET at = 1 WHERE name = 'rest'");
    await storage.deleteAlarm();
  });
  await evictDurableObject(sessionStub(sessionId));
  await runInDurableObject(sessionStub(sessionId), (object) => object.alarm());
}

const filesOf = async (sessionId: string) =>
  (await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` })).objects.map(({ key }) => key);

/** The kinds of the events that are in the object's own storage. */
const stored = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, { storage }) =>
    storage.sql
      .exec<{ heads: string }>("SELECT heads FROM log ORDER BY seq")
      .toArray()
      .flatMap(({ heads }) => JSON.parse(heads) as { k?: string }[])
      .map(({ k }) => k ?? "frame"),
  );

beforeEach(() => setLimits({ segmentChars: 2000 }));

describe("a session at rest", () => {
  test("moves its whole log to the archive, and every reader reads the same bytes", async () => {
    const { sessionId, workspace, sent } = await restingSession();
    const bearer = await token({ workspace });
    const reads = async () => {
      const link = await linkTo(workspace, sessionId, true);
      const exported = await get(`/api/sessions/${sessionId}/export?format=ndjson`, bearer);
      return [
        await eventsText(workspace, sessionId),
        await (await get(`/api/sessions/${sessionId}/events`, link)).text(),
        await exported.text(),
      ];
    };
    const view = async () => (await (await get(`/api/sessions/${sessionId}`, bearer)).json()) as object;
    const [before, seen] = [await reads(), await view()];
    await pass(sessionId);
    expect(await stored(sessionId)).toEqual(expect.arrayContaining(["log.archived"]));
    expect(new Set(await stored(sessionId))).toEqual(new Set(["log.archived"]));
    expect((await filesOf(sessionId)).length).toBeGreaterThan(1);

    const after = await reads();
    for (const [i, text] of before.entries()) expect(after[i]?.startsWith(text)).toBe(true);
    // Being archived is no use of the session.
    // A view reads no message from the archive.
    const { log: _, messageHistory: __, ...rest } = seen as { log: unknown; messageHistory: unknown };
    expect(await view()).toMatchObject(rest);

    const again = await Client.open(workspace);
    const { before: replayed } = await again.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(texts(replayed).join("")).toBe(sent.join(""));
  });

  test("wakes without the archive, and goes on with the next prompt", async () => {
    const { sessionId, workspace, client: gone, host } = await restingSession();
    gone.socket.close();
    await vi.waitUntil(async () => (await attached(sessionId)) === 0);
    await pass(sessionId);
    let reads = 0;
    changeArchive({
      get: (bucket, key) => {
        reads += 1;
        return bucket.get(key);
      },
    });
    await evictDurableObject(sessionStub(sessionId));
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(200);
    const client = await Client.open(workspace);
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const id = client.call("session/prompt", prompt(sessionId, "again"));
    const agent = await host.agent();
    await agent.openSession();
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
    expect(reads).toBe(0);
    const all = await events(workspace, sessionId);
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, i) => i + 1));
  });

  test("answers a repeated prompt from before", async () => {
    const key = crypto.randomUUID();
    const { sessionId, client } = await restingSession({ _meta: { [MetaKey.idempotencyKey]: key } });
    await pass(sessionId);
    const again = { ...prompt(sessionId), _meta: { [MetaKey.idempotencyKey]: key } };
    expect((await client.request("session/prompt", again)).response.result).toEqual({
      stopReason: "end_turn",
    });
  });

  test("loses nothing while the archive fails in the middle, and is archived later", async () => {
    const { sessionId, workspace } = await restingSession();
    const before = await eventsText(workspace, sessionId);
    let writes = 0;
    let isBroken = true;
    changeArchive({
      put: async (bucket, key, value) => {
        writes += 1;
        if (isBroken && writes === 2) throw new Error("R2 is down");
        // A file that was cut on its way.
        if (isBroken && writes > 2) return bucket.put(key, (value as string).slice(0, 20));
        return bucket.put(key, value as string);
      },
    });
    await pass(sessionId);
    await pass(sessionId);
    expect(await eventsText(workspace, sessionId)).toMatch(before.slice(0, 200));
    expect((await eventsText(workspace, sessionId)).startsWith(before)).toBe(true);
    expect(await stored(sessionId)).toContain("frame");
    isBroken = false;
    await pass(sessionId);
    expect(await stored(sessionId)).not.toContain("frame");
    expect((await eventsText(workspace, sessionId)).startsWith(before)).toBe(true);
  });

  test("is forked and exported whole, and its copy stands by itself", async () => {
    const { sessionId, workspace, client, sent } = await restingSession();
    await pass(sessionId);
    const { response } = await client.request("session/fork", { sessionId, cwd: "/", mcpServers: [] });
    const copy = (response.result as { sessionId: string }).sessionId;
    await client.request("session/delete", { sessionId });
    expect(await filesOf(sessionId)).toEqual([]);
    const reader = await Client.open(workspace);
    const { before } = await reader.request("session/load", { sessionId: copy, cwd: "/", mcpServers: [] });
    expect(texts(before).join("")).toBe(sent.join(""));
  });

  test("is deleted with its files, also with one that a crash has left", async () => {
    const { sessionId, client } = await restingSession();
    await pass(sessionId);
    await env.ARCHIVE!.put(`sessions/acme/${sessionId}/events/left.ndjson.gz`, "left");
    await client.request("session/delete", { sessionId });
    expect(await filesOf(sessionId)).toEqual([]);
  });

  test.each(["the limit is 0", "there is no archive"])("stays where it is when %s", async (why) => {
    if (why === "the limit is 0") setLimits({ archiveAfterMs: 0 });
    else {
      const { ARCHIVE } = env;
      delete env.ARCHIVE;
      onTestFinished(() => void Object.assign(env, { ARCHIVE }));
    }
    const { client, agent, sessionId } = await openSession();
    client.call("session/close", { sessionId });
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await agent.durable();
    await vi.waitUntil(async () => !(await deadlines(sessionId)).includes("release"));
    expect(await deadlines(sessionId)).not.toContain("rest");
  });
});

test("a session that is used again is not archived, and asks again later", async () => {
  const { sessionId, client, host } = await restingSession();
  const id = client.call("session/prompt", prompt(sessionId, "again"));
  const agent = await host.agent();
  await agent.openSession();
  await ring(sessionId);
  expect(await filesOf(sessionId)).toEqual([]);
  expect(await deadlines(sessionId)).toContain("rest");
  agent.answer(await agent.line(), { stopReason: "end_turn" });
  await client.until(id);
});

test("the time at rest has a default", () => expect(DEFAULT_LIMITS.archiveAfterMs).toBe(30 * DAY));

test("a session is deleted while the archive is away, and its files go when the archive is back", async () => {
  const { sessionId, workspace, client } = await restingSession();
  await pass(sessionId);
  let isBroken = true;
  changeArchive({
    list: (bucket, options) => (isBroken ? Promise.reject(new Error("R2 is down")) : bucket.list(options)),
  });
  await evictDurableObject(sessionStub(sessionId));
  expect((await client.request("session/delete", { sessionId })).response).toHaveProperty("result");
  expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(404);
  expect(await filesOf(sessionId).catch(String)).toContain("R2 is down");
  isBroken = false;
  await runInDurableObject(sessionStub(sessionId), (object) => object.alarm());
  expect(await filesOf(sessionId)).toEqual([]);
  const keys = await runInDurableObject(sessionStub(sessionId), (_, { storage }) => [...storage.kv.list()]);
  expect(keys).toEqual([]);
});
