import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { WorkspaceState } from "../../../src/workspace/workspace-state.ts";
import { get, openSession, sessionStub, workspaceName, workspaceStub } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { adminOf, ask, due, kept, make, received, receiver, receiveWebhooks, turn } from "./fixtures.ts";

receiveWebhooks();

describe("the webhook messages of a session", () => {
  test("are those its workspace's webhooks want", async () => {
    const opened = await openSession();
    const { workspace, sessionId, agent } = opened;
    await make(workspace, { events: ["permission.pending", "agent.failed"] });
    await make(workspace, { events: ["turn.ended"] });
    const permission = await ask(opened);
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "private" }]));
    await received(3);
    const about = { workspace, sessionId, sessionTitle: null };
    expect(receiver.messages("permission.pending")).toMatchObject([
      { data: { ...about, permission: { id: permission, options: [{ optionId: "yes" }] } } },
    ]);
    expect(receiver.messages("agent.failed")).toMatchObject([
      { data: { ...about, agent: "scripted", detailCode: "agent_exited" } },
    ]);
    expect(receiver.messages("turn.ended")).toMatchObject([{ data: { ...about, outcome: "failed" } }]);
    expect(receiver.requests[0]?.headers.get("user-agent")).toBe("acp-edge");
    expect(receiver.requests[0]?.headers.get("content-type")).toBe("application/json");
    expect(receiver.requests[0]?.redirect).toBe("manual");
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(3);
    await vi.waitUntil(async () => (await kept(sessionId)).rows?.length === 0);
    expect(await kept(sessionId)).toMatchObject({ deadlines: 0 });
  });

  test("cost no write and no call in a workspace without webhooks", async () => {
    const notify = vi.spyOn(WorkspaceState.prototype, "notify");
    const opened = await openSession();
    await turn(opened);
    await ask(opened);
    opened.agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await opened.agent.durable();
    expect(notify).not.toHaveBeenCalled();
    expect(await kept(opened.sessionId)).toMatchObject({ wanted: undefined, rows: [], deadlines: 0 });
  });

  test("begin with a new webhook and end with its removal while a process runs", async () => {
    const notify = vi.spyOn(WorkspaceState.prototype, "notify");
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    const made = await make(workspace, { events: ["turn.ended"] });
    await turn(opened);
    await received(1);
    const { path, bearer } = await adminOf(workspace);
    await get(`${path}/${made.id}`, bearer, "DELETE");
    expect(await kept(sessionId)).toMatchObject({ wanted: undefined });
    const calls = notify.mock.calls.length;
    await turn(opened);
    expect(notify).toHaveBeenCalledTimes(calls);
    expect(receiver.received).toHaveLength(1);
  });

  test("begin when the session gets its process later", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    await make(workspace);
    const client = await Client.open(workspace);
    const opening = client.newSession();
    const agent = await host.agent();
    await agent.openSession();
    const sessionId = await opening;
    await turn({ workspace, host, client, agent, sessionId });
    await received(1);
    expect(receiver.messages()).toMatchObject([{ type: "turn.ended", data: { sessionId } }]);
  });

  test("stop when the session learns that no webhook wants them", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    const made = await make(workspace, { events: ["turn.ended"] });
    // The session keeps its old subscription, as if it had no process when the webhook was deleted.
    await runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
      storage.sql.exec("DELETE FROM webhook WHERE id = ?", made.id);
    });
    await turn(opened);
    await vi.waitUntil(async () => (await kept(sessionId)).wanted === undefined);
    expect(receiver.requests).toEqual([]);
  });

  test("are delivered later when the workspace could not be reached", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    await make(workspace);
    vi.spyOn(console, "error").mockImplementation(() => {});
    const notify = vi.spyOn(WorkspaceState.prototype, "notify").mockImplementationOnce(() => {
      throw new Error("out of reach");
    });
    await turn(opened);
    await vi.waitUntil(() => notify.mock.calls.length > 0);
    expect(await kept(sessionId)).toMatchObject({ rows: [{ type: "turn.ended" }], deadlines: 1 });
    await due(sessionStub(sessionId), "webhook-messages");
    await received(1);
    expect(await kept(sessionId)).toMatchObject({ rows: [], deadlines: 0 });
  });

  test("survive a crash of the session before they were delivered", async () => {
    const opened = await openSession();
    const { workspace, sessionId, agent } = opened;
    await make(workspace);
    const notify = vi
      .spyOn(WorkspaceState.prototype, "notify")
      .mockImplementation((() => new Promise(() => {})) as never);
    await turn(opened);
    await vi.waitUntil(() => notify.mock.calls.length === 1);
    expect(await kept(sessionId)).toMatchObject({ rows: [{ type: "turn.ended" }], deadlines: 1 });
    const stub = sessionStub(sessionId);
    await expect(runInDurableObject(stub, (_, state) => state.abort("crash"))).rejects.toThrow();
    notify.mockRestore();
    await due(sessionStub(sessionId), "webhook-messages");
    await received(1);
    await agent.reconnect();
    const client = await Client.open(workspace);
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    await turn({ ...opened, client });
    await received(2);
    expect(receiver.messages().map(({ type }) => type)).toEqual(["turn.ended", "turn.ended"]);
  });

  test("let the session be evicted once they are delivered, and go on afterwards", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    await make(workspace);
    await turn(opened);
    await received(1);
    await evictDurableObject(sessionStub(sessionId));
    await turn(opened);
    await received(2);
    await vi.waitUntil(async () => (await kept(sessionId)).rows?.length === 0);
  });

  test("count once when the session delivers them twice", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    await make(workspace);
    vi.spyOn(console, "error").mockImplementation(() => {});
    const { notify } = WorkspaceState.prototype;
    let calls = 0;
    vi.spyOn(WorkspaceState.prototype, "notify").mockImplementation(function (
      this: WorkspaceState,
      messages,
    ) {
      const wanted = notify.call(this, messages);
      if (messages.length === 0) return wanted;
      calls += 1;
      if (calls === 1) throw new Error("the answer is lost");
      return wanted;
    });
    await turn(opened);
    await received(1);
    await due(sessionStub(sessionId), "webhook-messages");
    expect(calls).toBe(2);
    await turn(opened);
    await received(2);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(2);
    expect(receiver.received).toHaveLength(2);
  });

  test("are the newest of too many, with the number of all", async () => {
    setLimits({ webhookMessagesPerSession: 2 });
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    await make(workspace, { events: ["turn.ended"] });
    vi.spyOn(console, "error").mockImplementation(() => {});
    const notify = vi.spyOn(WorkspaceState.prototype, "notify").mockImplementation(() => {
      throw new Error("out of reach");
    });
    for (let n = 0; n < 5; n += 1) await turn(opened);
    expect((await kept(sessionId)).rows).toHaveLength(2);
    notify.mockRestore();
    await due(sessionStub(sessionId), "webhook-messages");
    await received(2);
    expect(await (await adminOf(workspace)).list()).toMatchObject([{ dropped: 3 }]);
  });

  test.each(["is out of reach", "answers"])(
    "are gone with a deleted session, also when its workspace %s after that",
    async (what) => {
      const opened = await openSession();
      const { workspace, sessionId, client } = opened;
      await make(workspace);
      const errors = vi.spyOn(console, "error").mockImplementation(() => {});
      let settle = () => {};
      const held = new Promise<string[]>((resolve, reject) => {
        settle = () => (what === "answers" ? resolve(["turn.ended"]) : reject(new Error(what)));
      });
      vi.spyOn(WorkspaceState.prototype, "notify").mockImplementation((() => held) as never);
      await turn(opened);
      expect((await kept(sessionId)).rows).toHaveLength(1);
      await client.request("session/delete", { sessionId });
      settle();
      await vi.waitUntil(async () => (await kept(sessionId)).tables.length === 0);
      expect(await kept(sessionId)).toEqual({ wanted: undefined, rows: undefined, tables: [], deadlines: 0 });
      const alarm = await runInDurableObject(sessionStub(sessionId), (_, { storage }) => storage.getAlarm());
      expect(alarm).toBeNull();
      if (what === "answers") expect(errors).not.toHaveBeenCalled();
      else await vi.waitUntil(() => errors.mock.calls.length === 1);
    },
  );

  test("say nothing about the original's past in a copy", async () => {
    const opened = await openSession();
    const { workspace, client, sessionId } = opened;
    await make(workspace);
    await turn(opened);
    await ask(opened);
    await received(2);
    const { response } = await client.request("session/fork", { sessionId, cwd: "/", mcpServers: [] });
    const fork = (response.result as { sessionId: string }).sessionId;
    expect(await kept(fork)).toMatchObject({ wanted: undefined, rows: [] });
    const { path, bearer } = await adminOf(workspace);
    const [{ id } = { id: "" }] = await (await adminOf(workspace)).list();
    await get(`${path}/${id}/test`, bearer, "POST");
    await received(3);
    expect(receiver.messages().map(({ type, data }) => [type, data.sessionId])).toEqual([
      ["turn.ended", sessionId],
      ["permission.pending", sessionId],
      ["ping", undefined],
    ]);
  });
});
