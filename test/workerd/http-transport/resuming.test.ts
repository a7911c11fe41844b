import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { randomFrom } from "../../fixtures/random.ts";
import { connectionStub, prompt, sessionStub, texts, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { type Agent, updateText } from "../peers/agent.ts";
import { type EventReader, HttpPeer } from "../peers/http-client.ts";
import { openSession, permission, placeOf } from "./fixtures.ts";

// workerd notices that a reader has gone only when something is written to it, so keep-alive comments come often here.
beforeEach(() => setLimits({ keepAliveMs: 50, readerProbeMs: 300 }));

/** Opens a stream whose last reader has just gone. */
function freeStream(peer: HttpPeer, session?: string): Promise<EventReader> {
  return vi.waitFor(() => peer.stream(session));
}

describe("Last-Event-ID", () => {
  /** The next events of a stream, read in one go. */
  async function whole(reader: EventReader, count: number) {
    const events = [];
    for (let i = 0; i < count; i += 1) events.push((await reader.next())!);
    return events;
  }

  test.each([["kept awake"], ["evicted in between"]])(
    "[I6] resumes exactly from any event, %s",
    async (how) => {
      const { peer, agent, sessionId, workspace } = await openSession();
      // A prompt of several blocks is one event and several messages for every other client.
      const blocks = ["p1", "p2", "p3"].map((text) => ({ type: "text", text }));
      await peer.call("session/prompt", { sessionId, prompt: blocks });
      const turn = await agent.line();
      for (let i = 0; i < 5; i += 1) agent.update(`u${i}`);
      agent.items(permission(8), permission(9));
      await agent.durable();

      const reader = await HttpPeer.open(workspace);
      const own = await reader.stream();
      let stream = await reader.stream(sessionId);
      const id = await reader.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
      // Three blocks and the merged text come first, then two requests and four updates.
      const all = await whole(stream, 4);
      await own.until(id);
      for (let i = 5; i < 9; i += 1) agent.update(`u${i}`);
      agent.answer(turn, { stopReason: "end_turn" });
      all.push(...(await whole(stream, 6)));
      expect(texts(all.map(({ message }) => message)).join("")).toBe("u0u1u2u3u4u5u6u7u8");
      for (let from = 0; from < all.length - 1; from += 1) {
        // The reader does not hang up first: a reader that presents the last event takes the stream over.
        if (from % 2 === 0) await stream.cancel();
        if (how !== "kept awake") {
          await evictDurableObject(connectionStub(reader.connection));
          await evictDurableObject(sessionStub(sessionId));
        }
        stream = await reader.stream(sessionId, all[from]?.id);
        expect(await whole(stream, all.length - 1 - from)).toEqual(all.slice(from + 1));
      }
      agent.update("end");
      expect(texts([await stream.take()])).toEqual(["end"]);
    },
  );

  test("resumes within a merged replay, whatever the page sizes", async () => {
    setLimits({ deliverChars: 700, replayChunkChars: 150 });
    const { agent, sessionId, workspace } = await openSession();
    const said = Array.from({ length: 60 }, (_, i) => `${String(i).padStart(3, "0")}${"x".repeat(i % 40)} `);
    agent.items(...said.map((text) => updateText(text)));
    await agent.durable();
    const reader = await HttpPeer.open(workspace);
    await reader.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
    let got = "";
    let last: string | undefined;
    while (got.length < said.join("").length) {
      const stream = await reader.stream(sessionId, last);
      const event = (await stream.next())!;
      got += texts([event.message]).join("");
      last = event.id;
      setLimits({ deliverChars: 300 + (got.length % 500) });
      await evictDurableObject(sessionStub(sessionId));
      if (got.length % 3 === 0) await evictDurableObject(connectionStub(reader.connection));
    }
    expect(got).toBe(said.join(""));
  });

  test("resumes the connection's stream exactly, and without it nothing is repeated", async () => {
    const peer = await HttpPeer.open(workspaceName());
    for (let i = 0; i < 5; i += 1) await peer.call("no/such", {});
    let stream = await peer.stream();
    const all = await whole(stream, 5);
    expect(all.map(({ message }) => message.id)).toEqual([0, 1, 2, 3, 4]);
    for (let from = 0; from < 4; from += 1) {
      await evictDurableObject(connectionStub(peer.connection));
      stream = await peer.stream(undefined, all[from]?.id);
      expect(await whole(stream, 4 - from)).toEqual(all.slice(from + 1));
    }
    await stream.cancel();
    await peer.call("no/such", {});
    expect(await (await freeStream(peer)).take()).toMatchObject({ id: 5 });
  });

  test("gets 409 when it is malformed or unknown, or when the events after it are gone", async () => {
    setLimits({ outboxMessages: 3 });
    const peer = await HttpPeer.open(workspaceName());
    expect((await peer.get(undefined, "x")).status).toBe(409);
    expect((await peer.get(undefined, "999")).status).toBe(409);
    const stream = await peer.stream();
    const events = [];
    for (let i = 0; i < 6; i += 1) {
      await peer.call("no/such", {});
      events.push((await stream.next())!);
    }
    expect((await peer.get(undefined, events[0]?.id)).status).toBe(409);
    expect(await whole(await peer.stream(undefined, events[2]?.id), 3)).toEqual(events.slice(3));
  });

  test("counts logged and unlogged messages separately", async () => {
    const { peer, agent, sessionId } = await openSession();
    let stream = await peer.stream(sessionId);
    const all = [];
    for (let i = 0; i < 4; i += 1) {
      agent.update(`u${i}`);
      all.push(...(await whole(stream, 1)));
      // The connection itself refuses a fork without a directory.
      await peer.call("session/fork", { sessionId });
      all.push(...(await whole(stream, 1)));
    }
    for (const [from, { id }] of all.slice(0, -1).entries()) {
      stream = await peer.stream(sessionId, id);
      const rest = (await whole(stream, all.length - 1 - from)).map(({ message }) => message);
      const expected = all.slice(from + 1).map(({ message }) => message);
      expect(texts(rest)).toEqual(texts(expected));
      expect(rest.filter(({ error }) => error)).toEqual(expected.filter(({ error }) => error));
    }
  });

  test("[I6] resumes exactly after the connection's object was killed", async () => {
    const { peer, agent, sessionId } = await openSession();
    let last: string | undefined;
    const got: Json[] = [];
    for (let round = 0; round < 4; round += 1) {
      const stream = await vi.waitFor(() => peer.stream(sessionId, last));
      for (let i = 0; i < 5; i += 1) agent.update(`${round}.${i}`);
      // The reader sees three of the five events before the object dies.
      while (got.length < (round + 1) * 3) {
        const [event] = await whole(stream, 1);
        got.push(event?.message as Json);
        last = event?.id;
      }
      await runInDurableObject(connectionStub(peer.connection), (_, state) => state.abort("killed")).catch(
        () => {},
      );
    }
    const stream = await vi.waitFor(() => peer.stream(sessionId, last));
    got.push(...(await whole(stream, 8)).map(({ message }) => message));
    const expected = [0, 1, 2, 3].flatMap((round) => [0, 1, 2, 3, 4].map((i) => `${round}.${i}`));
    expect(texts(got)).toEqual(expected);
  });

  test("[I6] is named before the first event, so a reader that is cut off at once loses nothing", async () => {
    const { peer, agent, sessionId } = await openSession();
    for (let round = 0; round < 3; round += 1) {
      const stream = await freeStream(peer, sessionId);
      const opened = await stream.opened();
      // The page goes to a reader that takes no more of it.
      agent.update(`u${round}`);
      await agent.durable();
      await stream.cancel();
      if (round === 1) await evictDurableObject(connectionStub(peer.connection));
      const again = await peer.stream(sessionId, opened);
      expect(texts([await again.take()])).toEqual([`u${round}`]);
      await again.cancel();
    }
  });

  test("may be left out: the stream goes on where the last reader was, even after an eviction", async () => {
    const { peer, agent, sessionId } = await openSession();
    for (let round = 0; round < 3; round += 1) {
      const stream = await freeStream(peer, sessionId);
      agent.update(`u${round}`);
      expect(texts([await stream.take()])).toEqual([`u${round}`]);
      await stream.cancel();
      await evictDurableObject(connectionStub(peer.connection));
    }
  });
});

describe("loading a session again over HTTP", () => {
  const again = (sessionId: string) => ({ sessionId, cwd: "/", mcpServers: [] });
  const vendor = (sessionId: string) => ({ sessionId });

  /** Reads up to an update that the agent sends now. */
  async function drain(stream: EventReader, agent: Agent): Promise<Json[]> {
    const name = crypto.randomUUID();
    agent.items(JSON.stringify({ jsonrpc: "2.0", method: "_mark", params: { name } }));
    const got: Json[] = [];
    for (;;) {
      const message = await stream.take();
      if ((message.params as Json | undefined)?.name === name) return got;
      got.push(message);
    }
  }

  const answersIn = (messages: Json[]) => messages.filter(({ method }) => method === undefined);

  test.each([
    ["session/load", "whose stream was never read"],
    ["session/load", "whose stream was read before"],
    ["session/resume", "whose stream was never read"],
    ["session/resume", "whose stream was read before"],
  ])("leaves no request unanswered, by %s of a session %s", async (method, how) => {
    const { peer, own, agent, sessionId } = await openSession();
    if (how.endsWith("before")) {
      const reader = await peer.stream(sessionId);
      agent.update("u0");
      await reader.take();
      await reader.cancel();
    }
    const turn = await peer.call("session/prompt", prompt(sessionId));
    agent.update("u1");
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await agent.durable();
    const reload = await peer.call(method, again(sessionId));
    await evictDurableObject(sessionStub(sessionId));
    const stream = await freeStream(peer, sessionId);
    const got = await drain(stream, agent);
    const ids = answersIn(got).map(({ id }) => id);
    if (method === "session/load") {
      expect(ids).toEqual([turn]);
      expect((await own.until(reload)).length).toBe(1);
      expect(texts(got).join("").endsWith("u1")).toBe(true);
    } else {
      expect(ids).toEqual([turn, reload]);
      expect(texts(got)).toContain("u1");
    }
  });

  test("gives a reader that returns with an earlier event the later answers once", async () => {
    const { peer, own, agent, sessionId } = await openSession();
    let stream = await peer.stream(sessionId);
    agent.update("u0");
    const { id: last } = (await stream.next())!;
    const turn = await peer.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    // The event is sent and lost on the way.
    await vi.waitUntil(async () => (await placeOf(peer, sessionId)) > 0);
    const loads = [];
    for (let i = 0; i < 3; i += 1) loads.push(await peer.call("session/load", again(sessionId)));
    stream = await peer.stream(sessionId, last);
    const got = await drain(stream, agent);
    expect(answersIn(got).map(({ id }) => id)).toEqual([turn]);
    for (const id of loads) expect((await own.until(id)).length).toBe(1);
  });

  test.each([3, 11, 29])("answers each request once at random times (seed %s)", async (seed) => {
    setLimits({ deliverChars: 1500, replayChunkChars: 60 });
    const { peer, own, agent, sessionId } = await openSession();
    const random = randomFrom(seed);
    const asked: number[] = [];
    const got: Json[] = [];
    const last: Record<string, string> = {};
    const streams: Record<string, EventReader> = { "": own };
    const opened = async (name: string) => {
      const reader = streams[name] ?? (await peer.stream(name || undefined, last[name]));
      streams[name] = reader;
      return reader;
    };
    const read = async (name: string) => {
      const event = (await (await opened(name)).next())!;
      last[name] = event.id;
      got.push(event.message);
    };
    for (let step = 0; step < 60; step += 1) {
      switch (random.below(7)) {
        case 0:
          asked.push(await peer.call("session/load", again(sessionId)));
          break;
        case 1:
          asked.push(await peer.call("session/resume", again(sessionId)));
          break;
        case 2:
          asked.push(await peer.call("_vendor", vendor(sessionId)));
          agent.answer(await agent.line(), {});
          break;
        case 3:
          for (let i = 0; i < 5; i += 1) agent.update(`${step}.${i} ${"x".repeat(random.below(80))}`);
          await agent.durable();
          break;
        case 4:
          if (!last[sessionId]) break;
          await streams[sessionId]?.cancel();
          delete streams[sessionId];
          break;
        case 5:
          for (let left = 1 + random.below(3); left > 0; left -= 1) {
            agent.update(`n${step}`);
            await read(sessionId);
          }
          break;
        default:
          // Right after an eviction there is no object to evict.
          await evictDurableObject(
            random.below(2) === 0 ? connectionStub(peer.connection) : sessionStub(sessionId),
          ).catch(() => {});
      }
    }
    got.push(...(await drain(await opened(sessionId), agent)));
    const here = new Set(answersIn(got).map(({ id }) => id));
    while (here.size < asked.length) {
      await read("");
      here.add(got.at(-1)?.id);
    }
    expect(
      answersIn(got)
        .map(({ id }) => id as number)
        .sort((a, b) => a - b),
    ).toEqual(asked);
  });
});
