import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { readAttachment } from "../../../src/durable/attachments.ts";
import { events, eventsText, get, openSession, prompt, sessionStub } from "../fixtures.ts";
import { updateText } from "../peers/agent.ts";
import { token } from "../tokens.ts";
import { big, deleteSession, LARGEST } from "./fixtures.ts";

// ---- live ---------------------------------------------------------------------------------------------

type SseEvent = { id: number; data: string };

/** Reads an event stream at the pace of the test. */
class Watcher {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  readonly #events: SseEvent[] = [];
  #text = "";
  #end = "";

  constructor(response: Response) {
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader();
  }

  static async open(workspace: string, sessionId: string, query = "", headers: Record<string, string> = {}) {
    const response = await exports.default.fetch(
      `https://edge.test/api/sessions/${sessionId}/events${query}`,
      {
        headers: {
          Authorization: `Bearer ${await token({ workspace })}`,
          Accept: "text/event-stream",
          ...headers,
        },
      },
    );
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toBe("text/event-stream");
    return new Watcher(response);
  }

  async next(): Promise<SseEvent> {
    for (;;) {
      const event = this.#events.shift();
      if (event) return event;
      const { done, value } = await this.#reader.read();
      if (done) throw new Error("The stream has ended");
      const piece = this.#decoder.decode(value, { stream: true });
      this.#text += piece;
      // Only the new text can end a block; the largest blocks arrive in thousands of pieces.
      if (!(this.#end + piece).includes("\n\n")) {
        this.#end = piece.slice(-1);
        continue;
      }
      const blocks = this.#text.split("\n\n");
      this.#text = blocks.pop() as string;
      this.#end = this.#text.slice(-1);
      for (const block of blocks) {
        const match = /^id: (\d+)\ndata: (.*)$/s.exec(block);
        if (match) this.#events.push({ id: Number(match[1]), data: match[2] as string });
      }
    }
  }

  async take(count: number): Promise<SseEvent[]> {
    const taken: SseEvent[] = [];
    while (taken.length < count) taken.push(await this.next());
    return taken;
  }

  async ended(): Promise<boolean> {
    return (await this.#reader.read()).done;
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }
}

/** The attachments of the session's readers. */
const attachments = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, state) =>
    state.getWebSockets("watch").map((ws) => readAttachment(ws, "log-watcher")),
  );

describe("the event stream of a session", () => {
  test("[I3] is the log, then every event added to it", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const log = (await eventsText(workspace, sessionId)).trimEnd().split("\n");
    const watcher = await Watcher.open(workspace, sessionId);
    const past = await watcher.take(log.length);
    expect(past.map((event) => event.data)).toEqual(log);
    expect(past.map((event) => event.id)).toEqual(log.map((_, i) => i + 1));
    const coming = watcher.next();
    agent.update("live");
    const event = await coming;
    expect(event.id).toBe(log.length + 1);
    expect(JSON.parse(event.data)).toMatchObject({ seq: event.id, kind: "acp.frame" });
    expect(event.data).toContain('"text":"live"');
    await watcher.close();
  });

  test("[I6] continues exactly after the last event its reader had", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const first = await Watcher.open(workspace, sessionId, "?after=3");
    const seen = await first.take(2);
    expect(seen.map((event) => event.id)).toEqual([4, 5]);
    await first.close();
    agent.items(...Array.from({ length: 50 }, (_, i) => updateText(String(i))));
    await agent.durable();
    const second = await Watcher.open(workspace, sessionId, "?after=3", { "Last-Event-ID": "5" });
    const total = (await events(workspace, sessionId)).length;
    expect((await second.take(total - 5)).map((event) => event.id)).toEqual(
      Array.from({ length: total - 5 }, (_, i) => i + 6),
    );
    await second.close();
  });

  test("[I9] survives an eviction of the object while its reader waits", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const coming = watcher.next();
    await vi.waitFor(async () =>
      expect(await attachments(sessionId)).toEqual([{ kind: "log-watcher", seq: length, waiting: true }]),
    );
    for (let i = 0; i < 2; i += 1) {
      await get(`/api/sessions/${sessionId}`, await token({ workspace }));
      await evictDurableObject(sessionStub(sessionId));
    }
    agent.update("awake");
    expect(await coming).toMatchObject({ id: length + 1, data: expect.stringContaining("awake") as string });
    await watcher.close();
  });

  test("[I3] sends a slow reader nothing before it reads", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const first = watcher.next();
    const chunk = "s".repeat(100_000);
    for (let i = 0; i < 60; i += 1) agent.update(`${i} ${chunk}`);
    await agent.durable();
    await first;
    // The reader gets one page of about a mebibyte at most; the rest stays in the log.
    const [attachment] = await attachments(sessionId);
    expect(attachment?.seq).toBeLessThanOrEqual(length + 12);
    const rest = await watcher.take(59);
    expect(rest.map((event) => event.id)).toEqual(Array.from({ length: 59 }, (_, i) => length + 2 + i));
    await watcher.close();
  });

  test("carries the largest frames", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const frames = [big(1_000_000, "€"), big(LARGEST)];
    agent.items(...frames);
    for (const [i, frame] of frames.entries()) {
      const event = await watcher.next();
      expect(event.id).toBe(length + 1 + i);
      expect(event.data.includes(`"message":${frame}}`)).toBe(true);
    }
    await watcher.close();
  });

  test("does not disturb the host's link, and is not disturbed by it", async () => {
    const { workspace, sessionId, agent, client } = await openSession();
    const watcher = await Watcher.open(workspace, sessionId);
    await watcher.next();
    await agent.reconnect();
    const id = client.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(id);
    const total = (await events(workspace, sessionId)).length;
    expect((await watcher.take(total - 1)).at(-1)?.id).toBe(total);
    await watcher.close();
  });

  test("ends when the session is deleted", async () => {
    const { workspace, sessionId } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const ended = watcher.ended();
    await deleteSession(sessionId);
    expect(await ended).toBe(true);
  });

  test("is refused for unknown sessions and to callers that may not see them", async () => {
    const { workspace, sessionId } = await openSession();
    const open = async (id: string, bearer: string, headers = {}) =>
      (
        await exports.default.fetch(`https://edge.test/api/sessions/${id}/events`, {
          headers: { Authorization: `Bearer ${bearer}`, Accept: "text/event-stream", ...headers },
        })
      ).status;
    const mine = await token({ workspace });
    expect(await open(crypto.randomUUID(), mine)).toBe(404);
    expect(await open("nonsense", mine)).toBe(404);
    expect(await open(sessionId, await token({ workspace, tenant: "evil" }))).toBe(404);
    expect(await open(sessionId, await token({ workspace, scopes: [] }))).toBe(403);
    expect(await open(sessionId, mine, { "Last-Event-ID": "x" })).toBe(400);
  });
});
