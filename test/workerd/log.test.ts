import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { events, eventsText, get, openSession, sessionStub } from "./fixtures.ts";
import { token } from "./tokens.ts";

/** A frame whose text is exactly `length` characters long, filled with the given character. */
function frameOf(length: number, fill = "x"): string {
  const [head, tail] = ['{"jsonrpc":"2.0","method":"_big","params":{"text":"', '"}}'];
  const room = length - head.length - tail.length;
  const text = fill.repeat(Math.floor(room / fill.length)).padEnd(room, "x");
  return head + text + tail;
}

const MB2 = 2_000_000;
const MIB2 = 2 * 1024 * 1024;

describe("the log with frames of any size", () => {
  test.each([
    ["the smallest", '{"method":""}'],
    ["2 MB - 1", frameOf(MB2 - 1)],
    ["2 MB", frameOf(MB2)],
    ["2 MB + 1", frameOf(MB2 + 1)],
    ["2 MiB - 1", frameOf(MIB2 - 1)],
    ["2 MiB", frameOf(MIB2)],
    ["2 MiB + 1", frameOf(MIB2 + 1)],
    ["exactly a row", frameOf(DEFAULT_LIMITS.rowChars)],
    ["a row and one", frameOf(DEFAULT_LIMITS.rowChars + 1)],
    ["three bytes per character", frameOf(MB2, "€")],
    // An odd offset puts a surrogate pair across the cut between two rows.
    ["surrogate pairs across rows", frameOf(DEFAULT_LIMITS.rowChars * 2 + 51, "😀")],
  ])("[I2] stores and delivers %s unchanged", async (_, raw) => {
    const { client, agent, sessionId, workspace } = await openSession();
    agent.items(raw);
    expect((await client.take()) === raw).toBe(true);
    const text = await eventsText(workspace, sessionId);
    expect(text.includes(`"message":${raw}}`)).toBe(true);
  });

  test("passes the largest frame a client may send to the agent", async () => {
    const { client, agent, sessionId } = await openSession();
    const head = `{"jsonrpc":"2.0","method":"_big","params":{"sessionId":"${sessionId}","text":"`;
    const raw = `${head}${"y".repeat(DEFAULT_LIMITS.frameChars - head.length - 3)}"}}`;
    client.send(raw);
    const line = await agent.line();
    expect(line.params?.text).toHaveLength(DEFAULT_LIMITS.frameChars - head.length - 3);
  });

  test("keeps the order and the numbers of small and large frames in one batch", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const batch = [
      frameOf(60),
      frameOf(DEFAULT_LIMITS.rowChars * 2),
      frameOf(61),
      frameOf(DEFAULT_LIMITS.rowChars - 10),
      frameOf(62),
    ];
    agent.items(...batch);
    for (const raw of batch) expect((await client.take()) === raw).toBe(true);
    const seqs = (await events(workspace, sessionId)).map((e) => e.seq);
    expect(seqs).toEqual(seqs.map((_, i) => i + 1));
  });

  test("never writes a row over the limit", async () => {
    const { agent, sessionId } = await openSession();
    agent.items(...Array.from({ length: 50 }, () => frameOf(50_000, "€")), frameOf(1_500_000, "€"));
    await agent.durable();
    const largest = await runInDurableObject(sessionStub(sessionId), (_, state) =>
      state.storage.sql
        .exec<{ n: number }>(
          `SELECT max(n) AS n FROM (
             SELECT length(CAST(body AS BLOB)) + length(CAST(heads AS BLOB)) AS n FROM log
             UNION ALL SELECT length(CAST(body AS BLOB)) FROM log_part)`,
        )
        .one(),
    );
    expect(largest.n).toBeLessThan(MB2);
  });
});

test("a reader whose session is deleted in mid-read gets an error, not a short log", async () => {
  const { client, agent, sessionId, workspace } = await openSession();
  // Each frame is a page of its own.
  agent.items(...Array.from({ length: 6 }, () => frameOf(DEFAULT_LIMITS.deliverChars)));
  await agent.durable();
  const { body } = await get(`/api/sessions/${sessionId}/events`, await token({ workspace }));
  const reader = body!.getReader();
  expect((await reader.read()).done).toBe(false);
  await client.until(client.call("session/delete", { sessionId }));
  const readToEnd = async () => {
    while (!(await reader.read()).done);
  };
  await expect(readToEnd()).rejects.toThrow();
});

describe("a frame over several lines", () => {
  test("reaches the agent and the log's readers on one line", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    client.send(
      `{\n  "jsonrpc": "2.0",\r\n  "method": "_pretty",\n  "params": { "sessionId": "${sessionId}", "text": "a\\nb" }\n}`,
    );
    expect(await agent.line()).toEqual({
      jsonrpc: "2.0",
      method: "_pretty",
      params: { sessionId: "agent-session", text: "a\nb" },
    });
    const log = await events(workspace, sessionId);
    expect(log.map((e) => (e.payload as { message?: { method?: string } }).message?.method)).toContain(
      "_pretty",
    );
  });
});
