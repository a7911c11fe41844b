import { runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { events, get, openSession, sessionStub, texts } from "./fixtures.ts";
import { type Agent, updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { token } from "./tokens.ts";

const prompt = (sessionId: string, text = "go", meta?: object) => ({
  sessionId,
  prompt: [{ type: "text", text }],
  ...(meta ? { _meta: meta } : {}),
});

async function kinds(workspace: string, sessionId: string): Promise<string[]> {
  return (await events(workspace, sessionId)).map((e) => e.kind as string);
}

async function describeSession(workspace: string, sessionId: string): Promise<Record<string, unknown>> {
  return (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
}

/** Lets time pass for the session's object and runs its alarm. */
async function later(sessionId: string, ms: number): Promise<void> {
  vi.setSystemTime(Date.now() + ms);
  await runInDurableObject(sessionStub(sessionId), (session) => session.alarm());
}

function crash(agent: Agent, code = 1): void {
  agent.items(JSON.stringify(["exit", { code, signal: null, stderr: "" }]));
}

afterEach(() => {
  vi.useRealTimers();
});

describe("an agent's next process", () => {
  test("resumes the agent's own session when the agent can resume", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession({
      sessionCapabilities: { resume: {} },
      loadSession: true,
    });
    crash(agent);
    const id = client.call("session/prompt", prompt(sessionId));
    const next = await host.agent();
    const opening = await next.line();
    expect(opening).toMatchObject({
      method: "session/resume",
      params: { sessionId: "agent-session", cwd: "/workspace", mcpServers: [] },
    });
    next.answer(opening, {});
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
    expect(await kinds(workspace, sessionId)).not.toContain("session.rebound");
  });

  test("loads the agent's session when it can only load, and its replay reaches nobody", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession({ loadSession: true });
    agent.update("hello");
    await client.takeJson();
    crash(agent);
    const id = client.call("session/prompt", prompt(sessionId));
    const next = await host.agent();
    const opening = await next.line();
    expect(opening.method).toBe("session/load");
    next.update("hello");
    next.update("hello");
    next.update("bye");
    next.answer(opening, {});
    const request = await next.line();
    next.update("bye");
    next.update("bye");
    next.answer(request, { stopReason: "end_turn" });
    // Real output may repeat itself; only the agent's own replay is withheld.
    expect(texts((await client.until(id)).before)).toEqual(["bye", "bye"]);
    const stops = (await events(workspace, sessionId))
      .map((e) => (e.payload as { stop?: string }).stop)
      .filter((s) => s === "replay" || s === "duplicate");
    expect(stops).toEqual(["replay", "duplicate", "replay"]);
    const again = await Client.open(workspace);
    const { before } = await again.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(texts(before).join()).toBe("hello,byebye");
  });

  test("opens a new agent session when loading fails, and tells the client", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession({ loadSession: true });
    crash(agent);
    const id = client.call("session/prompt", prompt(sessionId));
    const next = await host.agent();
    const opening = await next.line();
    next.items(JSON.stringify({ jsonrpc: "2.0", id: opening.id, error: { code: -32603, message: "no" } }));
    const fresh = await next.line();
    expect(fresh.method).toBe("session/new");
    next.answer(fresh, { sessionId: "another" });
    const request = await next.line();
    expect(request.params?.sessionId).toBe("another");
    next.items(updateText("hi", "another"));
    next.answer(request, { stopReason: "end_turn" });
    const { before } = await client.until(id);
    expect(before[0]).toMatchObject({
      params: {
        sessionId,
        update: { sessionUpdate: "session_info_update", _meta: { "acp-edge/event": "session.rebound" } },
      },
    });
    expect(texts(before)).toEqual(["hi"]);
    const rebound = (await events(workspace, sessionId)).find((e) => e.kind === "session.rebound");
    expect(rebound).toMatchObject({ acpSessionId: "another", payload: { previous: "agent-session" } });
  });

  test("is started ever more slowly in a crash loop, which ends with a clear error", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client, agent, host, sessionId, workspace } = await openSession();
    crash(agent);
    for (let i = 1; i < DEFAULT_LIMITS.crashLimit; i += 1) {
      const id = client.call("session/prompt", prompt(sessionId));
      if (i >= 2) {
        await vi.waitUntil(
          async () =>
            (await kinds(workspace, sessionId)).filter((k) => k === "runtime.reconnect_attempt").length === i,
        );
        await later(sessionId, 10_000);
      }
      crash(await host.agent());
      await client.until(id);
    }
    const { response } = await client.request("session/prompt", prompt(sessionId));
    expect(response.error).toMatchObject({
      code: -32603,
      message: expect.stringContaining("5 times in a row"),
    });
    expect((await describeSession(workspace, sessionId)).state).toBe("error");
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.crashMemoryMs + 1);
    const id = client.call("session/prompt", prompt(sessionId));
    const healed = await host.agent();
    await healed.openSession();
    healed.answer(await healed.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });
});

describe("an idle session", () => {
  test("keeps its process while there is work, and is paused after two idle hours", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client, agent, host, sessionId, workspace } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    await later(sessionId, DEFAULT_LIMITS.idleMs + 1);
    expect(await kinds(workspace, sessionId)).toContain("queue.owner.lease_renewed");
    agent.answer(request, { stopReason: "end_turn" });
    await client.until(id);
    await later(sessionId, DEFAULT_LIMITS.idleMs + 1);
    expect(await agent.stopped()).toBe("idle");
    expect(await describeSession(workspace, sessionId)).toMatchObject({ state: "paused" });
    // An alarm may run twice.
    await later(sessionId, 1);
    crash(agent, 0);
    await agent.durable();
    const all = await kinds(workspace, sessionId);
    expect(all.filter((k) => k === "queue.owner.idle_expired")).toHaveLength(1);
    expect(all.at(-1)).toBe("queue.owner.stopped");
    const again = client.call("session/prompt", prompt(sessionId, "awake"));
    const next = await host.agent();
    await next.openSession();
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(again)).response.result).toEqual({ stopReason: "end_turn" });
    expect(await describeSession(workspace, sessionId)).toMatchObject({ state: "active" });
  });

  test("keeps its process for half an hour after its last client has left", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client, agent, sessionId, workspace } = await openSession();
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.unattendedIdleMs);
    client.socket.close(1000);
    await client.closed;
    await vi.waitFor(async () => expect((await describeSession(workspace, sessionId)).clients).toEqual([]));
    // While the test waits, the time that it replaces goes on.
    await later(sessionId, DEFAULT_LIMITS.unattendedIdleMs - 60_000);
    expect(await kinds(workspace, sessionId)).not.toContain("queue.owner.idle_expired");
    await later(sessionId, 60_000);
    expect(await agent.stopped()).toBe("idle");
    expect(await describeSession(workspace, sessionId)).toMatchObject({ state: "paused" });
  });

  test("keeps its process for a client that has come back", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client, sessionId, workspace } = await openSession();
    client.socket.close(1000);
    await client.closed;
    await vi.waitFor(async () => expect((await describeSession(workspace, sessionId)).clients).toEqual([]));
    const back = await Client.open(workspace);
    await back.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    await later(sessionId, DEFAULT_LIMITS.unattendedIdleMs);
    expect(await kinds(workspace, sessionId)).toContain("queue.owner.lease_renewed");
    expect(await kinds(workspace, sessionId)).not.toContain("queue.owner.idle_expired");
  });

  test("gets a new process when it is prompted while the old one still ends", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { client, agent, host, sessionId } = await openSession();
    await later(sessionId, DEFAULT_LIMITS.idleMs + 1);
    await agent.stopped();
    const id = client.call("session/prompt", prompt(sessionId));
    client.notify("_mark", { sessionId });
    crash(agent, 0);
    const next = await host.agent();
    await next.openSession();
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });
});

describe("closing a session", () => {
  test("cancels the work, frees the process, keeps the history, and a load opens the session again", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession();
    const running = client.call("session/prompt", prompt(sessionId, "1"));
    await agent.line();
    const waiting = client.call("session/prompt", prompt(sessionId, "2"));
    const closing = client.call("session/close", { sessionId });
    expect((await client.until(waiting)).response.result).toEqual({ stopReason: "cancelled" });
    expect((await client.until(running)).response.result).toEqual({ stopReason: "cancelled" });
    expect((await client.until(closing)).response.result).toEqual({});
    expect(await agent.stopped()).toBe("closed");
    expect(await describeSession(workspace, sessionId)).toMatchObject({
      state: "completed",
      lifecycle: { closed: true },
    });
    const refused = await client.request("session/prompt", prompt(sessionId));
    expect(refused.response.error).toMatchObject({
      code: -32600,
      message: expect.stringContaining("closed"),
    });
    crash(agent, 0);
    const { before } = await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    // The second prompt never ran, so it is no part of the conversation.
    expect(before).toHaveLength(1);
    const id = client.call("session/prompt", prompt(sessionId, "3"));
    const next = await host.agent();
    await next.openSession();
    next.answer(await next.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });
});

describe("the prompt queue", () => {
  test("is bounded and visible, and prompts can be removed from it", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    client.call("session/prompt", prompt(sessionId));
    await agent.line();
    const ids = Array.from({ length: DEFAULT_LIMITS.queueLength }, (_, i) =>
      client.call("session/prompt", prompt(sessionId, `${i}`)),
    );
    const { response } = await client.request("session/prompt", prompt(sessionId, "too many"));
    expect(response.error).toMatchObject({ code: -32600, message: expect.stringContaining("queue is full") });
    const { queue } = (await describeSession(workspace, sessionId)) as { queue: { turnId: string }[] };
    expect(queue).toHaveLength(DEFAULT_LIMITS.queueLength);
    const bearer = await token({ workspace });
    const removed = await get(`/api/sessions/${sessionId}/queue/${queue[3]?.turnId}`, bearer, "DELETE");
    expect(removed.status).toBe(204);
    expect((await client.until(ids[3])).response.error).toMatchObject({ code: -32800 });
    expect((await get(`/api/sessions/${sessionId}/queue/${queue[3]?.turnId}`, bearer, "DELETE")).status).toBe(
      404,
    );
  });

  test("[I6] runs a prompt with an idempotency key once and answers every sender", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const other = await Client.open(workspace);
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const meta = { "acp-edge/idempotencyKey": "k1" };
    const first = client.call("session/prompt", prompt(sessionId, "once", meta));
    const request = await agent.line();
    const second = client.call("session/prompt", prompt(sessionId, "once", meta));
    const third = other.call("session/prompt", prompt(sessionId, "once", meta));
    client.notify("_mark", { sessionId });
    other.notify("_mark", { sessionId });
    expect([(await agent.line()).method, (await agent.line()).method]).toEqual(["_mark", "_mark"]);
    agent.answer(request, { stopReason: "max_tokens" });
    for (const [who, id] of [
      [client, first],
      [client, second],
      [other, third],
    ] as const) {
      expect((await who.until(id)).response.result).toEqual({ stopReason: "max_tokens" });
    }
    const late = await other.request("session/prompt", prompt(sessionId, "once", meta));
    expect(late.response.result).toEqual({ stopReason: "max_tokens" });
    expect((await kinds(workspace, sessionId)).filter((k) => k === "turn.started")).toHaveLength(1);
  });

  test("drops a waiting prompt that its client cancels by id", async () => {
    const { client, agent, sessionId } = await openSession();
    client.call("session/prompt", prompt(sessionId, "1"));
    await agent.line();
    const second = client.call("session/prompt", prompt(sessionId, "2"));
    client.notify("$/cancel_request", { requestId: second });
    expect((await client.until(second)).response.error).toMatchObject({ code: -32800 });
  });
});

describe("replay", () => {
  test("joins the chunks of a message and nothing else", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const chunk = (kind: string, text: string, extra: object = {}) =>
      JSON.stringify({
        jsonrpc: "2.0",
        method: "session/update",
        params: {
          sessionId: "agent-session",
          update: { sessionUpdate: kind, content: { type: "text", text }, ...extra },
        },
      });
    const tool = JSON.stringify({
      jsonrpc: "2.0",
      method: "session/update",
      params: {
        sessionId: "agent-session",
        update: { sessionUpdate: "tool_call", toolCallId: "t", title: "T" },
      },
    });
    const notice = chunk("notice", "now only");
    agent.items(
      chunk("agent_thought_chunk", "a"),
      chunk("agent_thought_chunk", "b"),
      chunk("agent_message_chunk", "c"),
      chunk("agent_message_chunk", "d"),
      tool,
      chunk("agent_message_chunk", "e"),
      notice,
      chunk("agent_message_chunk", "f"),
      chunk("agent_message_chunk", "g", { messageId: "m2" }),
      chunk("agent_message_chunk", "h", { messageId: "m2" }),
      chunk("agent_message_chunk", "i", { messageId: "m2", _meta: { x: 1 } }),
    );
    // The client does not offer to show notices.
    for (let i = 0; i < 10; i += 1) await client.take();
    const again = await Client.open(workspace);
    const { before } = await again.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    const seen = before
      .map((m) => (m.params as { update: { content?: { text: string }; toolCallId?: string } }).update)
      .map((u) => u.content?.text ?? u.toolCallId);
    expect(seen).toEqual(["ab", "cd", "t", "ef", "gh", "i"]);
    expect(before.at(-1)).toMatchObject({ params: { update: { _meta: { x: 1 } } } });
  });

  test("gives exactly the missed frames after a cursor, unmerged", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    agent.items(...["a", "b", "c", "d"].map((t) => updateText(t)));
    await agent.durable();
    const log = await events(workspace, sessionId);
    const seqOf = (text: string) =>
      log.find((e) => JSON.stringify(e.payload).includes(`"text":"${text}"`))?.seq as number;
    for (const method of ["session/load", "session/resume"]) {
      const { before } = await client.request(method, {
        sessionId,
        cwd: "/",
        mcpServers: [],
        _meta: { "acp-edge/after": seqOf("b") },
      });
      expect(texts(before).slice(-2)).toEqual(["c", "d"]);
    }
    const other = await Client.open(workspace);
    const { before } = await other.request("session/load", {
      sessionId,
      cwd: "/",
      mcpServers: [],
      _meta: { "acp-edge/after": 0 },
    });
    expect(texts(before)).toEqual(["a", "b", "c", "d"]);
    for (const bad of [-1, 1.5, "3", 99999]) {
      const { response } = await other.request("session/resume", {
        sessionId,
        cwd: "/",
        mcpServers: [],
        _meta: { "acp-edge/after": bad },
      });
      expect(response.error).toMatchObject({ code: -32602 });
    }
  });

  test("[I3] followed by live frames has no gap and no duplicate, a hundred times during a stream", async () => {
    const { agent, sessionId, workspace } = await openSession();
    const clients = await Promise.all(Array.from({ length: 10 }, () => Client.open(workspace)));
    let next = 0;
    const more = () => agent.items(...Array.from({ length: 5 }, () => updateText(`<${next++}>`)));
    for (let i = 0; i < 100; i += 1) {
      more();
      clients[i % 10]?.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
      more();
    }
    const expected = Array.from({ length: next }, (_, i) => `<${i}>`).join("");
    for (const client of clients) {
      // This connection loads ten times: the text since the last replay began must be the whole.
      let text = "";
      let answers = 0;
      while (answers < 10 || !text.endsWith(`<${next - 1}>`)) {
        const message = await client.takeJson();
        if ("result" in message) answers += 1;
        const [chunk] = texts([message]);
        if (chunk?.startsWith("<0>")) text = "";
        text += chunk ?? "";
      }
      expect(text).toBe(expected);
    }
  });
});

describe("deleting a session", () => {
  test("leaves nothing behind, and deleting again succeeds", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    expect((await client.request("session/delete", { sessionId })).response.result).toEqual({});
    expect(await agent.stopped()).toBe("deleted");
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(404);
    expect((await client.request("session/prompt", prompt(sessionId))).response.error).toMatchObject({
      code: -32002,
    });
    expect((await client.request("session/delete", { sessionId })).response.result).toEqual({});
    expect((await client.request("session/delete", { sessionId: "no such" })).response.result).toEqual({});
    const list = (await (await get("/api/sessions", await token({ workspace }))).json()) as {
      sessions: unknown[];
    };
    expect(list.sessions).toEqual([]);
  });

  test("does nothing to another tenant's session", async () => {
    const { sessionId, workspace } = await openSession();
    const stranger = await Client.open(workspace, "", "other");
    expect((await stranger.request("session/delete", { sessionId })).response.result).toEqual({});
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(200);
  });
});
