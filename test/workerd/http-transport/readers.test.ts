import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import type { Json } from "../../fixtures/json.ts";
import { randomFrom } from "../../fixtures/random.ts";
import { connectionStub, prompt, sessionStub, texts, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { HttpPeer } from "../peers/http-client.ts";
import { openSession, permission, placeOf } from "./fixtures.ts";

// workerd notices that a reader has gone only when something is written to it, so keep-alive comments come often here.
beforeEach(() => setLimits({ keepAliveMs: 50, readerProbeMs: 300 }));

describe("an HTTP client that does not read", () => {
  test("[I3] has its session's messages in the log alone, and reads them one page at a time later", async () => {
    setLimits({ deliverChars: 2000 });
    const { peer, agent, sessionId, workspace } = await openSession();
    const live = await Client.open(workspace);
    await live.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const stream = await peer.stream(sessionId);
    const said = Array.from({ length: 200 }, (_, i) => `u${i}`);
    for (const text of said) agent.update(text);
    // The silent reader holds up nobody.
    const seen: Json[] = [];
    while (seen.length < said.length) seen.push(await live.takeJson());
    const outbox = await runInDurableObject(
      connectionStub(peer.connection),
      (_, state) => state.storage.sql.exec("SELECT n FROM outbox WHERE stream <> ''").toArray().length,
    );
    expect(outbox).toBe(0);
    // A page is on its way to the reader.
    expect(await placeOf(peer, sessionId)).toBeLessThan(30);
    const got: Json[] = [];
    while (got.length < said.length) got.push(await stream.take());
    expect(texts(got)).toEqual(said);
  });

  test("is refused further requests until it reads", async () => {
    setLimits({ outboxMessages: 3 });
    const peer = await HttpPeer.open(workspaceName());
    for (let i = 0; i < 3; i += 1) await peer.call("no/such", {});
    const more = '{"jsonrpc":"2.0","id":"more","method":"no/such"}';
    expect((await peer.post(more)).status).toBe(429);
    const own = await peer.stream();
    for (let i = 0; i < 3; i += 1) await own.take();
    expect((await peer.post(more)).status).toBe(202);
    expect(await own.take()).toMatchObject({ id: "more" });
  });

  test("leaves an answer larger than a row waiting in pieces", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const peer = await HttpPeer.open(workspace);
    const id = await peer.call("session/new", { cwd: "/", mcpServers: [] });
    const agent = await host.agent();
    const _meta = { big: "é".repeat(3_000_000) };
    agent.answer(await agent.line(), { sessionId: "agent-session", _meta });
    const [answer] = await (await peer.stream()).until(id);
    expect(answer?.message.result).toMatchObject({ _meta });
  });

  test("is forgotten after a while unless it reads or writes", async () => {
    const { peer, own, sessionId } = await openSession();
    const check = async () => {
      await runInDurableObject(connectionStub(peer.connection), (_, state) => {
        state.storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'idle'");
      });
      await runDurableObjectAlarm(connectionStub(peer.connection));
    };
    await check();
    expect((await peer.post("{}")).status).toBe(202);
    await own.cancel();
    await vi.waitUntil(async () => {
      const stub = connectionStub(peer.connection);
      return (await runInDurableObject(stub, (_, state) => state.getWebSockets().length)) === 0;
    });
    await check();
    expect((await peer.post("{}")).status).toBe(202);
    await runInDurableObject(connectionStub(peer.connection), (_, state) => {
      state.storage.sql.exec(
        "UPDATE connection SET seen = ?",
        Date.now() - DEFAULT_LIMITS.connectionIdleMs - 1,
      );
    });
    await check();
    expect((await peer.post("{}")).status).toBe(404);
    const readers = await runInDurableObject(sessionStub(sessionId), (_, state) =>
      state.storage.sql.exec("SELECT connection FROM client").toArray(),
    );
    expect(readers).toEqual([]);
  });
});

describe("a session shared over HTTP", () => {
  test("[I6] ends with the same messages for readers that disconnect, return and are evicted at random", async () => {
    setLimits({ deliverChars: 3000 });
    const { agent, sessionId, workspace } = await openSession();
    const said = Array.from({ length: 300 }, (_, i) => `u${i}`);
    const random = randomFrom(7);
    const follow = async () => {
      const peer = await HttpPeer.open(workspace);
      await peer.call("session/resume", { sessionId, cwd: "/", mcpServers: [] });
      return async () => {
        const got: Json[] = [];
        let last: string | undefined;
        while (texts(got).length < said.length) {
          const stream = await peer.stream(sessionId, last);
          for (let left = random.below(40); left > 0 && texts(got).length < said.length; left -= 1) {
            const event = await stream.next();
            if (!event) break;
            got.push(event.message);
            last = event.id;
          }
          if (random.below(2) === 0) await stream.cancel();
          // Evicting an object fails while another reader evicts it.
          if (random.below(4) === 0)
            await evictDurableObject(connectionStub(peer.connection)).catch(() => {});
          if (random.below(8) === 0) await evictDurableObject(sessionStub(sessionId)).catch(() => {});
        }
        await peer.delete();
        return texts(got);
      };
    };
    const followers = await Promise.all(Array.from({ length: 4 }, follow));
    const reading = followers.map((read) => read());
    for (const text of said) {
      agent.update(text);
      if (random.below(10) === 0) await agent.durable();
    }
    for (const got of await Promise.all(reading)) expect(got).toEqual(said);
  });

  test("shows an HTTP client and a WebSocket client the same, and the first answer counts", async () => {
    const { peer, agent, sessionId, workspace } = await openSession();
    const socket = await Client.open(workspace);
    await socket.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const stream = await peer.stream(sessionId);
    const id = await peer.call("session/prompt", prompt(sessionId));
    const turn = await agent.line();
    expect(await socket.takeJson()).toMatchObject({
      params: { update: { sessionUpdate: "user_message_chunk" } },
    });
    agent.update("both");
    agent.items(permission(4));
    expect(await stream.take()).toEqual(await socket.takeJson());
    const asked = await socket.takeJson();
    expect(await stream.take()).toEqual(asked);
    socket.send(
      JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { outcome: { outcome: "cancelled" } } }),
    );
    expect(await agent.line()).toMatchObject({ id: 4 });
    agent.answer(turn, { stopReason: "end_turn" });
    await stream.until(id);
  });
});
