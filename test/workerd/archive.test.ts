import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import {
  events,
  eventsText,
  get,
  type Opened,
  openSession,
  sessionStub,
  texts,
  workspaceName,
} from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

const session = (id: string) => sessionStub(id);

const HISTORY_CHARS = 100_000;

/** A session whose history is longer than its limit, in rows of a few thousand characters. */
async function longSession(): Promise<Opened & { sent: string[] }> {
  setLimits({ historyChars: HISTORY_CHARS, segmentChars: 20000 });
  const opened = await openSession();
  const sent: string[] = [];
  for (let i = 0; i < 60; i += 1) {
    const chunk = Array.from({ length: 10 }, (_, k) => `${i}.${k} `);
    sent.push(...chunk);
    opened.agent.items(...chunk.map((text) => updateText(text)));
  }
  await opened.agent.durable();
  return { ...opened, sent };
}

/** Runs the alarm, which may already run by itself, and waits until the history is below its limit. */
async function archive(sessionId: string): Promise<void> {
  await runInDurableObject(session(sessionId), (object) => object.alarm());
  await vi.waitUntil(() =>
    runInDurableObject(session(sessionId), (_, state) => {
      const [row] = state.storage.sql.exec<{ n: number }>("SELECT sum(length(body)) AS n FROM log").toArray();
      return (row?.n ?? 0) <= HISTORY_CHARS * 0.7;
    }),
  );
}

async function firstStored(sessionId: string): Promise<number> {
  return runInDurableObject(
    session(sessionId),
    (_, state) => state.storage.sql.exec<{ seq: number }>("SELECT min(seq) AS seq FROM log").one().seq,
  );
}

describe("a history longer than its limit", () => {
  test("moves to the archive, oldest first, and every reader reads across the boundary", async () => {
    const { client, sessionId, workspace, sent } = await longSession();
    const before = await eventsText(workspace, sessionId);
    await archive(sessionId);
    expect(await firstStored(sessionId)).toBeGreaterThan(1);
    const { objects } = await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` });
    expect(objects.length).toBeGreaterThan(1);

    // Readers ask for the whole log, pages, a range from the middle, and an archive.
    const after = await eventsText(workspace, sessionId);
    expect(after.startsWith(before)).toBe(true);
    const whole = after.split("\n").slice(0, -1);
    for (const from of [0, 5, 100, 333, whole.length - 3]) {
      const page = await eventsText(workspace, sessionId, `?after=${from}&limit=3`);
      expect(page).toBe(
        whole
          .slice(from, from + 3)
          .map((line) => `${line}\n`)
          .join(""),
      );
    }
    const exported = await get(`/api/sessions/${sessionId}/export?format=ndjson`, await token({ workspace }));
    expect(new TextDecoder().decode(await exported.arrayBuffer())).toBe(after);

    // A client that loads the session and a client that was attached all along see the same conversation.
    const again = await Client.open(workspace);
    const { before: replayed } = await again.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(texts(replayed).join("")).toBe(sent.join(""));
    const live: string[] = [];
    while (live.length < sent.length) live.push(...texts([await client.takeJson()]));
    expect(live).toEqual(sent);
  });

  test("logs that it was archived, and takes further prompts", async () => {
    const { client, agent, sessionId, workspace } = await longSession();
    await archive(sessionId);
    const archived = (await events(workspace, sessionId)).filter((e) => e.kind === "log.archived");
    expect(archived[0]).toMatchObject({ payload: { first: 1 } });
    const id = client.call("session/prompt", { sessionId, prompt: [] });
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("keeps what a restart of the agent needs", async () => {
    const { client, agent, host, sessionId } = await longSession();
    await archive(sessionId);
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    const id = client.call("session/prompt", { sessionId, prompt: [] });
    const next = await host.agent();
    expect(await next.openSession()).toMatchObject({
      method: "session/new",
      params: { cwd: "/workspace", mcpServers: [] },
    });
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("keeps the long lists of models and options for clients that load it, and for forks", async () => {
    setLimits({ historyChars: HISTORY_CHARS, segmentChars: 20000 });
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const opening = client.newSession();
    const agent = await host.agent();
    const availableModels = Array.from({ length: 500 }, (_, i) => ({
      modelId: `m${i}`,
      name: "M".repeat(40),
    }));
    const options = availableModels.map(({ modelId: value, name }) => ({ value, name }));
    const configOptions = [{ id: "llm", name: "LLM", type: "select", currentValue: "m1", options }];
    const setup = { models: { currentModelId: "m400", availableModels }, configOptions };
    agent.answer(await agent.line(), { sessionId: "agent-session", ...setup });
    const sessionId = await opening;
    const load = { sessionId, cwd: "/", mcpServers: [] };
    expect((await client.request("session/load", load)).response.result).toEqual(setup);
    for (let i = 0; i < 30; i += 1) agent.items(updateText("x".repeat(4000)));
    await agent.durable();
    await archive(sessionId);
    expect(await firstStored(sessionId)).toBeGreaterThan(10);
    await evictDurableObject(session(sessionId));
    const other = await Client.open(workspace);
    expect((await other.request("session/load", load)).response.result).toEqual(setup);
    const { response } = await other.request("session/fork", load);
    expect(response.result).toMatchObject(setup);
  });

  test("[I4] folds to the same state without a snapshot, by replaying the archive too", async () => {
    const { sessionId, workspace } = await longSession();
    await archive(sessionId);
    const bearer = await token({ workspace });
    const before = await (await get(`/api/sessions/${sessionId}`, bearer)).text();
    await runInDurableObject(
      session(sessionId),
      (_, state) => void state.storage.sql.exec("DELETE FROM snapshot"),
    );
    await evictDurableObject(session(sessionId));
    expect(await (await get(`/api/sessions/${sessionId}`, bearer)).text()).toBe(before);
  });

  test("is read again after the archive could not be read and there is no snapshot", async () => {
    const { sessionId, workspace } = await longSession();
    await archive(sessionId);
    const [first] = (await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` })).objects;
    const key = first?.key as string;
    const file = (await (await env.ARCHIVE!.get(key))?.arrayBuffer()) as ArrayBuffer;
    await env.ARCHIVE!.delete(key);
    await runInDurableObject(session(sessionId), async (_, { storage }) => {
      storage.sql.exec("DELETE FROM snapshot");
      await storage.deleteAlarm();
    });
    await evictDurableObject(session(sessionId));
    const bearer = await token({ workspace });
    expect((await get(`/api/sessions/${sessionId}`, bearer)).status).toBe(500);
    await env.ARCHIVE!.put(key, file);
    expect((await get(`/api/sessions/${sessionId}`, bearer)).status).toBe(200);
    // The state is folded from the archive once, and then kept.
    const snapshots = await runInDurableObject(
      session(sessionId),
      (_, { storage }) => storage.sql.exec("SELECT 1 FROM snapshot").toArray().length,
    );
    expect(snapshots).toBe(1);
  });

  test("is written unpacked, as the release before reads it, and read packed as well", async () => {
    const { sessionId, workspace } = await longSession();
    await archive(sessionId);
    const before = await eventsText(workspace, sessionId);
    const { objects } = await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` });
    for (const { key } of objects) {
      const text = (await (await env.ARCHIVE!.get(key))?.text()) as string;
      expect([key.endsWith(".ndjson"), before.includes(text)]).toEqual([true, true]);
      const packed = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
      await env.ARCHIVE!.put(`${key}.gz`, await new Response(packed).arrayBuffer());
      await env.ARCHIVE!.delete(key);
    }
    await runInDurableObject(session(sessionId), (_, { storage }) => {
      storage.sql.exec("UPDATE segment SET key = key || '.gz'");
      storage.sql.exec("DELETE FROM snapshot");
    });
    await evictDurableObject(session(sessionId));
    expect(await eventsText(workspace, sessionId)).toBe(before);
  });

  test("is archived once, although the alarm rings again or a crash repeats the copy", async () => {
    const { sessionId, workspace } = await longSession();
    const before = await eventsText(workspace, sessionId);
    await archive(sessionId);
    const { objects } = await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` });
    await archive(sessionId);
    await archive(sessionId);
    const again = await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` });
    expect(again.objects.map((o) => [o.key, o.etag])).toEqual(objects.map((o) => [o.key, o.etag]));
    expect((await eventsText(workspace, sessionId)).startsWith(before)).toBe(true);
  });

  test("is deleted from the archive with its session", async () => {
    const { client, sessionId } = await longSession();
    await archive(sessionId);
    const id = client.call("session/delete", { sessionId });
    await client.until(id);
    expect((await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` })).objects).toEqual([]);
  });

  test("is reported as gone where the archive lost it, and stays readable elsewhere", async () => {
    const { sessionId, workspace, sent } = await longSession();
    await archive(sessionId);
    const { objects } = await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` });
    for (const { key } of objects) await env.ARCHIVE!.delete(key);
    // The object may still have a segment in memory.
    await evictDurableObject(session(sessionId));
    const bearer = await token({ workspace });
    const gone = await get(`/api/sessions/${sessionId}/events`, bearer);
    expect(gone.status).toBe(410);
    expect(await gone.json()).toMatchObject({
      error: { code: "gone", message: expect.stringContaining("no longer available") },
    });
    const first = (await firstStored(sessionId)) - 1;
    expect((await events(workspace, sessionId, `?after=${first}`))[0]?.seq).toBe(first + 1);

    const again = await Client.open(workspace);
    const { response, before } = await again.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(response).toHaveProperty("result");
    expect(before[0]).toMatchObject({ params: { update: { _meta: { "acp-edge/event": "history.gone" } } } });
    expect(sent.join("").endsWith(texts(before).join(""))).toBe(true);
  });
});

test("a full history without an archive takes no more prompts, and everything stays readable", async () => {
  const bucket = env.ARCHIVE;
  delete env.ARCHIVE;
  try {
    const { client, sessionId, workspace, sent } = await longSession();
    const { response } = await client.request("session/prompt", { sessionId, prompt: [] });
    expect(response.error).toEqual({
      code: -32600,
      message: `The session's history is full (${HISTORY_CHARS} characters)`,
    });
    const again = await Client.open(workspace);
    const { before } = await again.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(texts(before).join("")).toBe(sent.join(""));
    const exported = await get(`/api/sessions/${sessionId}/export`, await token({ workspace }));
    expect(exported.status).toBe(200);
    expect(await exported.text()).toContain(sent.at(-1)?.trim());
  } finally {
    if (bucket) env.ARCHIVE = bucket;
  }
});
