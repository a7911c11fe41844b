import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { changeArchive, pairReads } from "../archive-bucket.ts";
import { eventsText, openSession, sessionStub, texts } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { updateText } from "../peers/agent.ts";
import { Client } from "../peers/client.ts";
import { token } from "../tokens.ts";

/** A session with several segments in the archive, as the log says and as a client sees it. */
async function archivedSession() {
  setLimits({ historyChars: 40_000, segmentChars: 8000 });
  const { agent, sessionId, workspace } = await openSession();
  const sent: string[] = [];
  for (let i = 0; i < 30; i += 1) {
    const chunk = Array.from({ length: 10 }, (_, k) => `${i}.${k} `);
    sent.push(...chunk);
    agent.items(...chunk.map((text) => updateText(text)));
  }
  await agent.durable();
  await runInDurableObject(sessionStub(sessionId), (object) => object.alarm());
  const segments = await vi.waitUntil(() =>
    runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
      const rows = storage.sql.exec<{ first: number }>("SELECT first FROM segment ORDER BY first").toArray();
      return rows.length > 2 && rows;
    }),
  );
  const whole = (await eventsText(workspace, sessionId)).split("\n").slice(0, -1);
  const page = (after: number) =>
    whole
      .slice(after, after + 3)
      .map((line) => `${line}\n`)
      .join("");
  return { sessionId, workspace, sent, page, later: (segments.at(-1)?.first as number) - 1 };
}

describe("[I3] readers of different archived segments at the same time", () => {
  test("get their pages, although one segment takes the place of the other", async () => {
    const { sessionId, workspace, page, later } = await archivedSession();
    pairReads();
    await evictDurableObject(sessionStub(sessionId));
    const [first, last] = await Promise.all([
      eventsText(workspace, sessionId, "?after=0&limit=3"),
      eventsText(workspace, sessionId, `?after=${later}&limit=3`),
    ]);
    expect(first).toBe(page(0));
    expect(last).toBe(page(later));
  });

  test("leave no client waiting in the middle of the history", async () => {
    const { sessionId, workspace, sent, page, later } = await archivedSession();
    const client = await Client.open(workspace);
    pairReads();
    await evictDurableObject(sessionStub(sessionId));
    const loading = client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    const read = eventsText(workspace, sessionId, `?after=${later}&limit=3`);
    expect(texts((await loading).before).join("")).toBe(sent.join(""));
    expect(await read).toBe(page(later));
  });

  test("share one request for a segment that they want together", async () => {
    const { sessionId, workspace, page } = await archivedSession();
    let reads = 0;
    changeArchive({
      get: (bucket, key) => {
        reads += 1;
        return bucket.get(key);
      },
    });
    await evictDurableObject(sessionStub(sessionId));
    const pages = await Promise.all(
      Array.from({ length: 5 }, () => eventsText(workspace, sessionId, "?after=0&limit=3")),
    );
    expect(pages).toEqual(Array(5).fill(page(0)));
    expect(reads).toBe(1);
  });
});

test("a live reader whose page cannot be read ends, and continues when it connects again", async () => {
  const { sessionId, workspace, page } = await archivedSession();
  const [{ key } = { key: "" }] = (await env.ARCHIVE!.list({ prefix: `sessions/acme/${sessionId}/` }))
    .objects;
  let isBroken = true;
  changeArchive({
    get: (bucket, wanted) =>
      isBroken && wanted === key ? Promise.reject(new Error("R2 is down")) : bucket.get(wanted),
  });
  await evictDurableObject(sessionStub(sessionId));
  const live = await exports.default.fetch(`https://edge.test/api/sessions/${sessionId}/events`, {
    headers: { Authorization: `Bearer ${await token({ workspace })}`, Accept: "text/event-stream" },
  });
  expect(await live.text()).not.toContain("data:");
  isBroken = false;
  expect(await eventsText(workspace, sessionId, "?after=0&limit=3")).toBe(page(0));
});
