import { describe, expect, test, vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { openSession, prompt, texts, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { Client } from "../peers/client.ts";
import { HELLO, Host } from "../peers/host.ts";
import { dialHost, Peer } from "../peers/peer.ts";
import { CAN_RESUME, kinds, logged, session, set, view } from "./fixtures.ts";

describe("draining a host", () => {
  test("ends idle processes at once, others after their turn, and places nothing new there", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession(CAN_RESUME);
    await set(workspace, { sharedFiles: true });
    const opening = client.newSession();
    const idle = await host.agent();
    await idle.openSession();
    const idleSession = await opening;
    const other = await Host.join(workspace, { name: "other" });
    other.capabilities = CAN_RESUME;

    const first = client.call("session/prompt", prompt(sessionId, "one"));
    const request = await agent.line();
    const second = client.call("session/prompt", prompt(sessionId, "two"));
    await logged(workspace, sessionId, "queue.enqueued");
    host.tell({ t: "draining" });

    expect(await idle.stopped()).toContain("drained");
    idle.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await logged(workspace, idleSession, "queue.owner.stopped");
    expect(await session(workspace, idleSession)).toMatchObject({ state: "active", lastError: null });

    await logged(workspace, sessionId, "queue.owner.draining");
    agent.update("still here");
    agent.answer(request, { stopReason: "end_turn" });
    const { response, before } = await client.until(first);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(texts(before)).toEqual(["still here"]);
    expect(await agent.stopped()).toContain("drained");
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));

    const next = await other.agent();
    next.answer(await next.line(), {});
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(second)).response.result).toEqual({ stopReason: "end_turn" });
    expect(await kinds(workspace, sessionId)).not.toContain("turn.failed");
    expect((await view(workspace)).hosts).toMatchObject([
      { name: "h1", state: "draining" },
      { name: "other" },
    ]);
  });

  test("leaves waiting sessions to the host's next instance if no other host has the files", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    await Host.join(workspace, { name: "other" });
    host.tell({ t: "draining" });
    await agent.stopped();
    const id = client.call("session/prompt", prompt(sessionId));
    client.notify("_mark", { sessionId });
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await logged(workspace, sessionId, "runtime.reconnect_attempt");
    await host.leave();
    const back = await Host.join(workspace);
    const next = await back.agent();
    await next.openSession();
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("continues when the host was cut off meanwhile", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    await set(workspace, { sharedFiles: true });
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    host.tell({ t: "draining" });
    await logged(workspace, sessionId, "queue.owner.draining");
    await host.leave();
    await Host.join(workspace, { instance: host.instance, runs: [{ sessionId, run: agent.run }] });
    agent.answer(request, { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("leaves nothing to wait for after a goodbye", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    await agent.line();
    await host.leave(1000);
    expect((await client.until(id)).response.error).toMatchObject({ data: { outcome: "unknown" } });
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 0);
  });

  test("fails the turn when the host ends too soon, and the log says why", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    await agent.line();
    host.tell({ t: "draining" });
    await logged(workspace, sessionId, "queue.owner.draining");
    const exit = { code: null, signal: "SIGTERM", error: "the host was shut down", stderr: "" };
    agent.items(JSON.stringify(["exit", exit]));
    expect((await client.until(id)).response.error).toMatchObject({
      message: expect.stringContaining("the host was shut down"),
      data: { outcome: "unknown" },
    });
  });
});

describe("a workspace with as many hosts as it may have", () => {
  test("refuses another host until one leaves, and takes its own hosts back", async () => {
    setLimits({ hostsPerWorkspace: 2 });
    const workspace = workspaceName();
    const first = await Host.join(workspace);
    await Host.join(workspace, { name: "h2" });
    const peer = new Peer(await dialHost(workspace, "/host/control"));
    peer.send(JSON.stringify({ ...HELLO, name: "h3", instance: "newcomer" }));
    expect(await peer.takeJson()).toEqual({
      t: "refused",
      why: "full",
      reason: "A workspace has at most 2 connected hosts",
    });
    expect((await peer.closed).code).toBe(1013);
    await Host.join(workspace, { name: first.name, instance: first.instance });
    expect(await first.closed).toMatchObject({ code: 4408 });
    const names = async () => ((await view(workspace)).hosts as Json[]).map(({ name }) => name);
    expect(await names()).toEqual(["h1", "h2"]);
  });

  test("accepts no more than two sockets for each", async () => {
    setLimits({ hostsPerWorkspace: 1 });
    const workspace = workspaceName();
    const sockets = [
      await dialHost(workspace, "/host/control"),
      await dialHost(workspace, "/host/control"),
    ].map((socket) => new Peer(socket));
    await expect(dialHost(workspace, "/host/control")).rejects.toThrow("503");
    sockets[0]?.socket.close(3000);
    await sockets[0]?.closed;
    await Host.join(workspace);
  });
});

describe("two hosts of one name", () => {
  test("leave the name to the one that is connected", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const peer = new Peer(await dialHost(workspace, "/host/control"));
    peer.send(JSON.stringify({ ...HELLO, instance: "newcomer" }));
    expect(await peer.takeJson()).toMatchObject({
      t: "refused",
      why: "name",
      reason: expect.stringContaining('"h1"'),
    });
    expect((await peer.closed).code).toBe(4410);
    expect((await view(workspace)).hosts).toMatchObject([{ name: "h1", state: "connected" }]);
  });

  test("give the name to the newer one when the older one does not answer", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    host.answersProbes = false;
    const next = new Host(await dialHost(workspace, "/host/control"), workspace);
    const { instance } = next;
    const agents = [{ id: "better", name: "Better", default: true }];
    next.send(JSON.stringify({ ...HELLO, instance, agents }));
    next.tell({ t: "agent", id: "better", initialize: { protocolVersion: 1 } });
    expect((await next.takeJson()).t).toBe("welcome");
    expect(await host.closed).toMatchObject({ code: 4409 });
    // Messages sent while the older host was probed count.
    await vi.waitUntil(async () => ((await view(workspace)).agents as Json[])[0]?.ready === true);
    const client = await Client.open(workspace);
    const opening = client.newSession();
    await (await next.agent()).openSession();
    await opening;
  });

  test("are one host when an instance comes back: it replaces its own old socket at once", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    host.answersProbes = false;
    await Host.join(workspace, { instance: host.instance });
    expect(await host.closed).toMatchObject({ code: 4408 });
    expect((await view(workspace)).hosts).toMatchObject([{ name: "h1", state: "connected" }]);
  });
});
