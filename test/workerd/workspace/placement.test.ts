import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import type { Json } from "../../fixtures/json.ts";
import {
  events,
  openSession,
  prompt,
  sessionStub,
  texts,
  workspaceName,
  workspaceStub,
} from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { dialHost, Peer } from "../peers/peer.ts";
import { CAN_RESUME, logged, session, set, view } from "./fixtures.ts";

describe("placement", () => {
  test("spreads new sessions over the hosts", async () => {
    const workspace = workspaceName();
    const hosts = [await Host.join(workspace, { name: "a" }), await Host.join(workspace, { name: "b" })];
    const client = await Client.open(workspace);
    for (let i = 0; i < 4; i += 1) {
      const opening = client.newSession();
      const agent = await (hosts[i % 2] as Host).agent();
      await agent.openSession();
      await opening;
    }
    const { hosts: seen, sessions } = await view(workspace);
    expect(seen).toMatchObject([{ load: { sessions: 2 } }, { load: { sessions: 2 } }]);
    expect(sessions).toMatchObject({ total: 4 });
  });

  test("keeps a session on its host, even if another host has less to do", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession(CAN_RESUME);
    await Host.join(workspace, { name: "idle" });
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await agent.durable();
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 0);
    const id = client.call("session/prompt", prompt(sessionId));
    const next = await host.agent();
    next.answer(await next.line(), {});
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("gives the default agent to a session that was opened before any agent was known", async () => {
    const workspace = workspaceName();
    const client = await Client.open(workspace);
    const opening = client.newSession();
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 1);
    const host = await Host.join(workspace);
    const agent = await host.agent();
    await agent.openSession();
    const sessionId = await opening;
    expect((await view(workspace)).sessions).toMatchObject({
      items: [{ agent: "scripted", state: "placed" }],
    });
    expect(await session(workspace, sessionId)).toMatchObject({ agent: { name: "scripted" } });
  });

  test("forgets sessions that have no process and request none", async () => {
    const { workspace, client, agent, sessionId } = await openSession();
    expect((await view(workspace)).sessions).toEqual({
      total: 1,
      items: [{ sessionId, agent: "scripted", host: "h1", state: "placed" }],
    });
    await client.request("session/close", { sessionId });
    await agent.stopped();
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 0);

    const deleted = await openSession();
    await deleted.client.request("session/delete", { sessionId: deleted.sessionId });
    expect((await view(deleted.workspace)).sessions).toEqual({ total: 0, items: [] });
  });

  test.each(["is started again", "is drained"])(
    "moves a session whose host %s while opening it, and the client sees no difference",
    async (how) => {
      const workspace = workspaceName();
      const host = await Host.join(workspace);
      const client = await Client.open(workspace);
      const opening = client.newSession();
      const agent = await host.agent();
      expect((await agent.line()).method).toBe("session/new");
      let next = host;
      if (how === "is drained") {
        next = await Host.join(workspace, { name: "other" });
        host.tell({ t: "draining" });
        await logged(workspace, agent.sessionId, "queue.owner.draining");
        await set(workspace, { sharedFiles: true });
        agent.items(
          JSON.stringify(["exit", { code: 0, signal: null, error: "the host was shut down", stderr: "" }]),
        );
      } else {
        await host.leave();
        next = await Host.join(workspace);
      }
      await (await next.agent()).openSession();
      expect(await opening).toBe(agent.sessionId);
      expect(await session(workspace, agent.sessionId)).toMatchObject({ state: "active", lastError: null });
    },
  );

  test("names the host it has waited for", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    await Host.join(workspace, { name: "other" });
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await agent.durable();
    await host.leave();
    const id = client.call("session/prompt", prompt(sessionId));
    await logged(workspace, sessionId, "runtime.reconnect_attempt");
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 1);
    const object = sessionStub(sessionId);
    await runInDurableObject(object, async (instance, { storage }) => {
      storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'agent-start'");
      await instance.alarm();
    });
    expect((await client.until(id)).response.error).toMatchObject({
      message: expect.stringMatching(
        /^No host has started an agent in time: waited for host "h1", which has been gone/,
      ),
    });
  });
});

describe("a host that is away for too long", () => {
  test("loses its sessions to another host if all have the files, and releases them when it is back", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession(CAN_RESUME);
    await set(workspace, { sharedFiles: true, hostGraceMs: 100 });
    const other = await Host.join(workspace, { name: "other" });
    other.capabilities = CAN_RESUME;
    const first = client.call("session/prompt", prompt(sessionId, "one"));
    await agent.line();
    const second = client.call("session/prompt", prompt(sessionId, "two"));
    await host.leave();
    expect((await client.until(first)).response.error).toMatchObject({ data: { outcome: "unknown" } });
    expect((await agent.link.closed).code).toBe(4409);

    const next = await other.agent();
    const opening = await next.line();
    expect(opening).toMatchObject({ method: "session/resume", params: { sessionId: "agent-session" } });
    next.answer(opening, {});
    const request = await next.line();
    expect(request.params).toMatchObject({ prompt: [{ text: "two" }] });

    await Host.join(workspace, { instance: host.instance, runs: [{ sessionId, run: agent.run }] });
    const stale = new Peer(await dialHost(workspace, `/host/sessions/${sessionId}`));
    const { run, processRequest } = agent;
    stale.send(
      JSON.stringify({
        t: "hello",
        run,
        agent: "scripted",
        host: "h1",
        root: "/workspace",
        processRequest,
        delivered: 0,
        draining: false,
      }),
    );
    expect((await stale.closed).code).toBe(4409);
    next.answer(request, { stopReason: "end_turn" });
    expect((await client.until(second)).response.result).toEqual({ stopReason: "end_turn" });
    const failed = (await events(workspace, sessionId)).filter(({ kind }) => kind === "turn.failed");
    expect(failed).toHaveLength(1);
  });

  test("pauses its sessions if no other host has the files, and their turns go on when it is back", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    await set(workspace, { hostGraceMs: 100 });
    await Host.join(workspace, { name: "other" });
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    agent.update("before");
    await agent.durable();
    await host.leave();
    await logged(workspace, sessionId, "runtime.paused");
    expect(await session(workspace, sessionId)).toMatchObject({
      state: "paused",
      turn: { turnId: expect.any(String) },
    });

    await Host.join(workspace, { instance: host.instance, runs: [{ sessionId, run: agent.run }] });
    await agent.reconnect();
    expect(await session(workspace, sessionId)).toMatchObject({ state: "active" });
    agent.update("after");
    agent.answer(request, { stopReason: "end_turn" });
    const { response, before } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(texts(before)).toEqual(["before", "after"]);
    const notices = before.flatMap(({ params }) => {
      const meta = ((params as Json).update as { _meta?: Json })._meta;
      return meta ? [meta["acp-edge/event"]] : [];
    });
    expect(notices).toEqual(["runtime.paused", "runtime.reconnected"]);
  });

  test("loses its sessions as soon as the workspace shares its files", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    await set(workspace, { hostGraceMs: 100 });
    const other = await Host.join(workspace, { name: "other" });
    const id = client.call("session/prompt", prompt(sessionId));
    await agent.line();
    client.call("session/prompt", prompt(sessionId, "next"));
    await host.leave();
    await logged(workspace, sessionId, "runtime.paused");
    await set(workspace, { sharedFiles: true });
    expect((await client.until(id)).response.error).toMatchObject({ data: { outcome: "unknown" } });
    expect(await other.order()).toMatchObject({ sessionId });
  });

  test("is not waited for by a closed session", async () => {
    const { workspace, host, client, sessionId } = await openSession();
    await set(workspace, { hostGraceMs: 100 });
    await host.leave();
    await logged(workspace, sessionId, "runtime.paused");
    await client.request("session/close", { sessionId });
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 0);
    expect(await session(workspace, sessionId)).toMatchObject({ state: "completed", host: null });
  });

  test("is noticed when it vanishes without a goodbye", async () => {
    const { workspace, host, sessionId } = await openSession();
    await set(workspace, { hostGraceMs: 100 });
    host.answersProbes = false;
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      vi.setSystemTime(Date.now() + DEFAULT_LIMITS.hostCheckMs + 1);
      await runInDurableObject(workspaceStub(workspace), (instance) => instance.alarm());
    } finally {
      vi.useRealTimers();
    }
    expect((await host.closed).code).toBe(4408);
    await logged(workspace, sessionId, "runtime.paused");
  });
});

describe("a gateway that was away for longer than the grace", () => {
  /** The session has a turn, and its host lost the gateway. The workspace starts again when the grace is long over. */
  async function returned() {
    const opened = await openSession();
    const { workspace, host, client, agent, sessionId } = opened;
    await set(workspace, { sharedFiles: true });
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    await host.leave();
    const object = workspaceStub(workspace);
    await runInDurableObject(object, (_, { storage }) => {
      storage.sql.exec("UPDATE host SET lastSeenAt = lastSeenAt - ?", 2 * DEFAULT_LIMITS.hostGraceMs);
      storage.sql.exec("UPDATE deadline SET at = 1 WHERE name = 'grace'");
    });
    await evictDurableObject(object);
    await runInDurableObject(object, (instance) => instance.alarm());
    return { ...opened, id, request, object };
  }

  test("gives a host the chance to return, and its turn goes on", async () => {
    const { workspace, host, client, agent, sessionId, id, request } = await returned();
    await Host.join(workspace, { instance: host.instance, runs: [{ sessionId, run: agent.run }] });
    agent.update("still here");
    agent.answer(request, { stopReason: "end_turn" });
    const { response, before } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(texts(before)).toEqual(["still here"]);
  });

  test("gives up a host that does not return", async () => {
    const { client, id, object } = await returned();
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      vi.setSystemTime(Date.now() + DEFAULT_LIMITS.hostReturnMs + 1);
      await runInDurableObject(object, (instance) => instance.alarm());
    } finally {
      vi.useRealTimers();
    }
    expect((await client.until(id)).response.error).toMatchObject({ data: { outcome: "unknown" } });
  });
});
