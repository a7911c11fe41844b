import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { unpackTar } from "modern-tar";
import { describe, expect, test } from "vitest";
import { eventsText, get, openSession, prompt, sessionStub, workspaceName } from "../fixtures.ts";
import { type Agent, updateText } from "../peers/agent.ts";
import type { Client } from "../peers/client.ts";
import type { Host } from "../peers/host.ts";
import { token } from "../tokens.ts";
import {
  archive,
  big,
  deleteSession,
  download,
  filesOf,
  foreign,
  LARGEST,
  segments,
  tarOf,
  upload,
} from "./fixtures.ts";

const ODD = [
  '{"method":""}',
  '{"params":{"update":{"z":12345678901234567890,"a":1.0,"u":"\\u00e9\\ud83d","x":null},"sessionId":"agent-session","_meta":{"b":1,"a":2}},"method":"session/update","jsonrpc":"2.0"}',
  '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"agent-session","update":{"sessionUpdate":"from_the_future","n":1e400,"2":0,"1":0}}}',
  '{"jsonrpc": "2.0",  "method": "_vendor/x", "params": [1, 2.50, "€😀"], "method": "_vendor/y"}',
  '{"jsonrpc":"2.0","method":"_esc","params":{"k\\u0065y":"\\/","message":{"message":1}}}',
];

/** A session with a turn, odd frames and large ones. */
async function eventful(): Promise<{
  workspace: string;
  sessionId: string;
  agent: Agent;
  client: Client;
  host: Host;
}> {
  const session = await openSession();
  const { client, agent, sessionId } = session;
  const id = client.call("session/prompt", prompt(sessionId));
  const request = await agent.line();
  agent.items(...ODD, big(700_000, "€"), big(1_999_900), big(2_000_000));
  agent.items(big(LARGEST), updateText("between"), big(LARGEST), big(10));
  agent.answer(request, { stopReason: "end_turn" });
  await client.until(id);
  return session;
}

// ---- tests --------------------------------------------------------------------------------------------

describe("an exported archive", () => {
  test("has the files of the acpx session model", async () => {
    const { workspace, sessionId, client, agent } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(id);
    const response = await download(workspace, sessionId, "acpx");
    expect(response.headers.get("Content-Type")).toBe("application/x-tar");
    expect(response.headers.get("Content-Disposition")).toBe(
      `attachment; filename="acp-session-${sessionId}.tar"`,
    );
    const files = filesOf(await unpackTar(new Uint8Array(await response.arrayBuffer()), { strict: true }));
    expect([...files.keys()]).toEqual([
      "events/000000000001.ndjson",
      "session.json",
      "index/turns.json",
      "index/latest.json",
    ]);
    const log = await eventsText(workspace, sessionId);
    expect(files.get("events/000000000001.ndjson")).toBe(log);
    const lastSeq = log.trimEnd().split("\n").length;
    expect(JSON.parse(files.get("session.json") as string)).toMatchObject({
      schema: "acpx.session.v1",
      acpxRecordId: sessionId,
      log: { lastSeq, activeSegment: "events/000000000001.ndjson" },
      acpProjection: { schema: "acpx.session.acp.v1", lastSeq },
      turnHistory: expect.arrayContaining([expect.objectContaining({ role: "user" })]),
    });
    expect(JSON.parse(files.get("index/latest.json") as string)).toMatchObject({ lastSeq, segments: 1 });
    expect(JSON.parse(files.get("index/turns.json") as string)).toMatchObject([
      { status: "completed", stopReason: "end_turn", startSegment: "events/000000000001.ndjson" },
    ]);
  });

  test("[I2] is imported byte for byte, from 13 bytes to the largest frame", async () => {
    const { workspace, sessionId } = await eventful();
    const before = await archive(workspace, sessionId);
    expect(segments(before).length).toBeGreaterThan(1);
    await deleteSession(sessionId);
    const { status, json } = await upload(await tarOf(before), { workspace });
    expect({ status, json }).toMatchObject({ status: 201, json: { sessionId } });
    const after = await archive(workspace, sessionId);
    for (const [name, text] of segments(before)) expect(after.get(name) === text, name).toBe(true);
    // The events since the import are in a file of their own.
    const added = segments(after).slice(segments(before).length);
    expect(added).toHaveLength(1);
    expect(JSON.parse(added[0]?.[1].split("\n")[0] as string)).toMatchObject({ kind: "session.imported" });
    // The second export goes through storage and includes the events since the import.
    await evictDurableObject(sessionStub(sessionId));
    await deleteSession(sessionId);
    await upload(await tarOf(after), { workspace });
    const again = await archive(workspace, sessionId);
    for (const [name, text] of segments(after)) expect(again.get(name) === text, name).toBe(true);
  });

  test("is stored again in as few rows as before", async () => {
    const { workspace, sessionId, agent } = await openSession();
    agent.items(...Array.from({ length: 500 }, (_, i) => updateText(`chunk ${i}`)));
    await agent.durable();
    const rows = () =>
      runInDurableObject(sessionStub(sessionId), (_, state) =>
        state.storage.sql.exec("SELECT seq, at, ids, context, heads, body FROM log ORDER BY seq").toArray(),
      );
    const before = await rows();
    const files = await archive(workspace, sessionId);
    await deleteSession(sessionId);
    await upload(await tarOf(files), { workspace });
    expect((await rows()).slice(0, before.length)).toEqual(before);
  });

  test("[I2] of another system keeps every byte: ids, sources, kinds, fields, order and white space", async () => {
    const workspace = workspaceName();
    const sessionId = crypto.randomUUID();
    const odd = [
      foreign(sessionId, 1, {
        kind: "acp.frame",
        payload: {
          direction: "out",
          message: { jsonrpc: "2.0", id: 0, method: "session/new", params: { cwd: "/repo", mcpServers: [] } },
        },
      }),
      foreign(sessionId, 2, { futureField: { a: [1, 2] }, payload: { n: 1 } }),
      `{ "payload": {"big": 12345678901234567890, "f": 1.0}, "schema":"acpx.event.v1","seq":3, "eventId":"x", "at":"2026-02-27T10:11:12Z","acpxRecordId":"${sessionId}","kind":"queue.unheard_of"}`,
      foreign(sessionId, 4, {
        kind: "acp.frame",
        payload: { message: [1, 2], direction: "sideways", more: true },
      }),
      foreign(sessionId, 5, {
        kind: "acp.frame",
        payload: { direction: "in", message: { id: 1, result: {} }, extra: { deep: 1 }, re: "no number" },
      }),
      `${foreign(sessionId, 6)}\r`,
      foreign(sessionId, 7, { payload: { text: "y".repeat(3_000_000) } }),
    ];
    const text = odd.map((line) => `${line}\n`).join("");
    const { status } = await upload(await tarOf([[`${sessionId}/events/000000000001.ndjson`, text]]), {
      workspace,
    });
    expect(status).toBe(201);
    const files = await archive(workspace, sessionId);
    expect(files.get("events/000000000001.ndjson") === text).toBe(true);
    expect(await eventsText(workspace, sessionId, "?after=2&limit=1")).toBe(`${odd[2]}\n`);
  });
});

describe("an export", () => {
  test("is the whole log as NDJSON", async () => {
    const { workspace, sessionId } = await eventful();
    const response = await download(workspace, sessionId, "ndjson");
    expect(response.headers.get("Content-Type")).toBe("application/x-ndjson; charset=utf-8");
    const text = new TextDecoder().decode(await response.arrayBuffer());
    expect(text === (await eventsText(workspace, sessionId))).toBe(true);
  });

  test("is refused in an unknown format, and not found for an unknown session", async () => {
    const { workspace, sessionId } = await openSession();
    const bearer = await token({ workspace });
    expect((await get(`/api/sessions/${sessionId}/export?format=pdf`, bearer)).status).toBe(400);
    expect((await get(`/api/sessions/${crypto.randomUUID()}/export`, bearer)).status).toBe(404);
  });
});
