/** Forms of a newer release, as a rollback or a deploy in progress brings them to this one. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Caller } from "../../../src/protocol/caller.ts";
import { STATE_VERSION } from "../../../src/session/core/state/state.ts";
import {
  connectionOf,
  connectionStub,
  events,
  get,
  openSession,
  prompt,
  sessionStub,
  texts,
} from "../fixtures.ts";
import { token } from "../tokens.ts";

type Row = { seq: number; heads: string; body: string };

function rowsOf(sessionId: string): Promise<Row[]> {
  return runInDurableObject(sessionStub(sessionId), (_, { storage }) =>
    storage.sql.exec<Row>("SELECT seq, heads, body FROM log ORDER BY seq").toArray(),
  );
}

/** Changes the heads of the log's last row, which no snapshot includes then, and puts the session to sleep. */
async function changeLastRow(sessionId: string, change: (heads: string) => string): Promise<void> {
  const last = (await rowsOf(sessionId)).at(-1) as Row;
  await runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    storage.sql.exec("DELETE FROM snapshot");
    storage.sql.exec("UPDATE log SET heads = ? WHERE seq = ?", change(last.heads), last.seq);
  });
  await evictDurableObject(sessionStub(sessionId));
}

describe("a log with a row of a newer version", () => {
  test("is refused with the reason, is left as it is, and goes on when the newer release is back", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    agent.update("before");
    await client.takeJson();
    await changeLastRow(sessionId, (heads) => `{"v":2,"heads":${heads}}`);
    const rows = await rowsOf(sessionId);

    for (const path of ["", "/events"]) {
      const answer = await get(`/api/sessions/${sessionId}${path}`, await token({ workspace }));
      expect(answer.status).toBe(503);
      expect(await answer.json()).toMatchObject({ error: { message: expect.stringContaining("version 2") } });
    }
    const { response } = await client.request("session/prompt", prompt(sessionId));
    expect(response).toMatchObject({ error: { message: expect.any(String) } });
    expect(await rowsOf(sessionId)).toEqual(rows);

    await changeLastRow(sessionId, (heads) =>
      JSON.stringify((JSON.parse(heads) as { heads: unknown }).heads),
    );
    const answer = await get(`/api/sessions/${sessionId}/events`, await token({ workspace }));
    expect(await answer.text()).toContain("before");
  });
});

test("a snapshot of a newer version is not read: the state is folded from the log", async () => {
  const { client, agent, sessionId, workspace } = await openSession();
  agent.update("before");
  await client.takeJson();
  const view = async () =>
    (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json() as Promise<object>;
  const before = await view();
  await runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    const state = JSON.stringify({
      version: STATE_VERSION + 1,
      lastSeq: 1_000_000,
      queue: "of another form",
    });
    storage.sql.exec("INSERT OR REPLACE INTO snapshot (one, seq, state) VALUES (1, 1000000, ?)", state);
  });
  await evictDurableObject(sessionStub(sessionId));
  expect(await view()).toEqual(before);
});

describe("a call of a newer version", () => {
  test("with a page is refused, and the client gets nothing of it", async () => {
    const { client, agent, sessionId } = await openSession();
    const connection = connectionStub(await connectionOf(sessionId));
    const page = {
      v: 2,
      end: { attachment: 1, seq: 1_000 },
      frames: ['{"jsonrpc":"2.0","method":"_newer"}'],
    };
    const outcome = runInDurableObject(connection, (object) => object.deliver(sessionId, page).catch(String));
    expect(await outcome).toContain("version 2");
    agent.update("ours");
    expect(texts([await client.takeJson()])).toEqual(["ours"]);
  });

  test("with a client's frames is refused, and nothing of it is logged", async () => {
    const { sessionId, workspace } = await openSession();
    const before = await events(workspace, sessionId);
    const frame = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "session/prompt",
      params: prompt(sessionId),
    });
    const caller = {
      tenant: "acme",
      subject: "someone",
      workspaces: [workspace],
      scopes: ["session:read", "session:prompt"],
      expires: Math.floor(Date.now() / 1000) + 3600,
    } satisfies Caller;
    const connection = await connectionOf(sessionId);
    const batch = { v: 2, connection, caller, numbers: [1_000], frames: [frame], subscriptions: {} };
    const outcome = runInDurableObject(sessionStub(sessionId), (object) =>
      object.receive(batch).catch(String),
    );
    expect(await outcome).toContain("version 2");
    expect(await events(workspace, sessionId)).toEqual(before);
  });
});
