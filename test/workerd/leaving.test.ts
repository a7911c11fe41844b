import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { AcpSession } from "../../src/session/acp-session.ts";
import type { Json } from "../fixtures/json.ts";
import { events, get, type Opened, openSession, prompt, sessionStub, workspaceName } from "./fixtures.ts";
import { questionRequest } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { TRANSPORTS } from "./peers/transports.ts";
import { token } from "./tokens.ts";
import { set } from "./workspace/fixtures.ts";

async function join({ workspace, sessionId }: Opened, query = ""): Promise<Client> {
  const client = await Client.open(workspace, query);
  await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  return client;
}

type View = { queue: unknown[]; clients: { role: string }[]; state: string; lifecycle: { closed: boolean } };

async function view({ workspace, sessionId }: Pick<Opened, "workspace" | "sessionId">): Promise<View> {
  return (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
}

describe("session/close", () => {
  test("only detaches its client while another controller is attached", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await join(opened);
    expect((await client.request("session/close", { sessionId })).response.result).toEqual({});
    expect(await view(opened)).toMatchObject({ state: "active", clients: [{ role: "controller" }] });
    const id = other.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await other.until(id)).response.result).toEqual({ stopReason: "end_turn" });
    // Alone again, the other client ends the session.
    expect((await other.request("session/close", { sessionId })).response.result).toEqual({});
    expect(await agent.stopped()).toBe("closed");
  });

  test("only detaches its client while a turn runs that somebody else asked for", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await join(opened);
    other.call("session/prompt", prompt(sessionId));
    const running = await agent.line();
    other.socket.close(1000);
    await other.closed;
    expect((await client.request("session/close", { sessionId })).response.result).toEqual({});
    agent.answer(running, { stopReason: "end_turn" });
    await agent.durable();
    expect((await view(opened)).lifecycle.closed).toBe(false);
    const kinds = (await events(opened.workspace, sessionId)).map(({ kind }) => kind);
    expect(kinds).toContain("turn.completed");
    expect(kinds).not.toContain("session.closed");
  });

  test("ends the session although an observer looks on", async () => {
    const opened = await openSession();
    await join(opened, "&role=observer");
    await opened.client.request("session/close", { sessionId: opened.sessionId });
    expect(await opened.agent.stopped()).toBe("closed");
  });

  test("answers the prompt of the client that leaves, once, also if the client comes back during the turn", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await join(opened);
    const id = client.call("session/prompt", prompt(sessionId));
    const running = await agent.line();
    const closing = client.call("session/close", { sessionId });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "cancelled" });
    expect((await client.until(closing)).response.result).toEqual({});
    await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    agent.update("still here");
    agent.answer(running, { stopReason: "end_turn" });
    await agent.durable();
    const { before } = await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(before.filter((message) => message.id === id)).toEqual([]);
    expect(JSON.stringify(before)).toContain("still here");
    const { before: seen } = await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    expect(JSON.stringify(seen)).toContain("still here");
  });

  test("means what the workspace says, or what the client says itself", async () => {
    const workspace = workspaceName();
    await set(workspace, { closeMeans: "detach" });
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const opening = client.newSession();
    const agent = await host.agent();
    await agent.openSession();
    const sessionId = await opening;
    await client.request("session/close", { sessionId });
    expect(await view({ workspace, sessionId })).toMatchObject({ state: "active", clients: [] });
    const _meta = { "acp-edge/closeMeans": "end" };
    await client.request("session/close", { sessionId, _meta });
    expect(await agent.stopped()).toBe("closed");
  });

  test("of another tenant finds no session, and of an observer is refused", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    const stranger = await Client.open(workspace, "", "evil");
    for (const method of ["session/close", "session/detach"])
      expect((await stranger.request(method, { sessionId })).response.error).toMatchObject({ code: -32002 });
    const observer = await join(opened, "&role=observer");
    expect((await observer.request("session/close", { sessionId })).response.error).toMatchObject({
      code: -32003,
    });
    expect((await view(opened)).clients).toHaveLength(2);
  });
});

describe("session/cancel", () => {
  test("leaves the waiting prompts of other clients alone", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await join(opened);
    const first = client.call("session/prompt", prompt(sessionId, "1"));
    const running = await agent.line();
    const theirs = other.call("session/prompt", prompt(sessionId, "theirs"));
    await vi.waitFor(async () => expect((await view(opened)).queue).toHaveLength(1));
    const mine = client.call("session/prompt", prompt(sessionId, "mine"));
    client.notify("session/cancel", { sessionId });
    expect((await client.until(mine)).response.result).toEqual({ stopReason: "cancelled" });
    expect(await agent.line()).toMatchObject({ method: "session/cancel" });
    agent.answer(running, { stopReason: "cancelled" });
    await client.until(first);
    const next = await agent.line();
    expect(JSON.stringify(next)).toContain("theirs");
    agent.answer(next, { stopReason: "end_turn" });
    expect((await other.until(theirs)).response.result).toEqual({ stopReason: "end_turn" });
  });
});

describe("session/detach", () => {
  test("of an observer writes nothing into the log", async () => {
    const opened = await openSession();
    const observer = await join(opened, "&role=observer");
    const lastSeq = async () => (await events(opened.workspace, opened.sessionId)).length;
    const before = await lastSeq();
    const { response } = await observer.request("session/detach", { sessionId: opened.sessionId });
    expect(response.result).toEqual({});
    expect(await lastSeq()).toBe(before);
    expect((await view(opened)).clients).toHaveLength(1);
  });

  test("[I6] leaves the session knowing which messages of the client it has", async () => {
    const opened = await openSession();
    const { client, sessionId, agent } = opened;
    client.call("session/prompt", prompt(sessionId, "once"));
    await agent.line();
    const { connection, caller, received } = await runInDurableObject(sessionStub(sessionId), (_, state) => {
      const rows = state.storage.sql.exec<{ connection: string; received: number }>("SELECT * FROM client");
      const { connection: name, received: last } = rows.one();
      const scopes = ["session:read", "session:prompt"] as const;
      const rights = { workspaces: [opened.workspace], scopes: [...scopes], expires: 4e9 };
      return {
        connection: name,
        received: last,
        caller: { tenant: "acme", subject: "someone", ...rights },
      };
    });
    await client.request("session/detach", { sessionId });
    const repeated = await runInDurableObject(sessionStub(sessionId), (session) => {
      if (!(session instanceof AcpSession)) throw new Error("no session");
      const frame = { jsonrpc: "2.0", id: 9, method: "session/prompt", params: prompt(sessionId, "once") };
      return session.receive({
        ...{ connection, caller, numbers: [received], frames: [JSON.stringify(frame)], repeated: true },
        subscriptions: { turnEnds: false, agent: false, serves: [], abilities: [] },
      });
    });
    expect(repeated).toMatchObject({ ok: true });
    const prompts = (await events(opened.workspace, sessionId)).filter(
      ({ payload }) => (payload as { message?: Json }).message?.method === "session/prompt",
    );
    expect(prompts).toHaveLength(1);
  });

  describe.each(TRANSPORTS)("over $name", (transport) => {
    test.each(["session/detach", "_acp-edge/detach"])(
      "%s releases the client, touches nothing, and the client may come back",
      async (method) => {
        const workspace = workspaceName();
        const host = await Host.join(workspace);
        const client = await transport.open(workspace);
        const opening = await client.call("session/new", { cwd: "/", mcpServers: [] });
        const agent = await host.agent();
        await agent.openSession();
        const { sessionId } = (await client.answerTo(opening)).result as { sessionId: string };
        await client.follow(sessionId);
        const asked = await client.call("session/prompt", prompt(sessionId));
        const running = await agent.line();
        agent.update("before ");
        await client.until(() => client.text(sessionId) === "before ");
        expect((await client.request(method, { sessionId })).result).toEqual({});
        expect((await client.answerTo(asked)).result).toEqual({ stopReason: "cancelled" });
        expect(await view({ workspace, sessionId })).toMatchObject({ state: "active", clients: [] });
        agent.update("unseen ");
        agent.answer(running, { stopReason: "end_turn" });
        await agent.durable();
        expect(client.text(sessionId)).toBe("before ");
        await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
        agent.update("after");
        await client.until(() => client.text(sessionId).endsWith("after"));
        expect(client.text(sessionId)).toBe("before after");
        expect(client.read.filter(({ id }) => id === asked)).toHaveLength(1);
      },
    );
  });
});

describe("a client that has left", () => {
  const PERMISSION = {
    request: JSON.stringify({
      jsonrpc: "2.0",
      id: "q",
      method: "session/request_permission",
      params: {
        sessionId: "agent-session",
        toolCall: { toolCallId: "t1", title: "Write a file", kind: "edit" },
        options: [{ optionId: "yes", name: "Allow", kind: "allow_once" }],
      },
    }),
    theirs: { outcome: { outcome: "cancelled" } },
    ours: { outcome: { outcome: "selected", optionId: "yes" } },
  };
  const QUESTION = {
    request: questionRequest("q"),
    theirs: { action: "cancel" },
    ours: { action: "decline" },
  };

  /** Ends when the session has all that the client sent before: a request that attaches nobody is answered after it. */
  const settled = (client: Client, sessionId: string) => client.request("session/detach", { sessionId });

  test.each([
    ["session/close", "permission request", PERMISSION],
    ["session/detach", "permission request", PERMISSION],
    ["session/close", "question", QUESTION],
    ["session/detach", "question", QUESTION],
  ])("by %s decides no %s, which stays open for the others", async (method, _, { request, theirs, ours }) => {
    const opened = await openSession();
    const { client, agent, workspace, sessionId } = opened;
    const other = await join(opened);
    agent.items(request);
    const { id } = await client.takeJson();
    expect((await other.takeJson()).id).toBe(id);
    expect((await client.request(method, { sessionId })).response.result).toEqual({});
    const before = (await events(workspace, sessionId)).length;
    client.send(JSON.stringify({ jsonrpc: "2.0", id, result: theirs }));
    client.send(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: "No" } }));
    await settled(client, sessionId);
    expect(await events(workspace, sessionId)).toHaveLength(before);
    expect((await view(opened)).clients).toHaveLength(1);
    agent.update("for the others");
    expect(await other.takeJson()).toMatchObject({ method: "session/update" });
    other.send(JSON.stringify({ jsonrpc: "2.0", id, result: ours }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "q", result: ours });
    await agent.durable();
    // Nothing of the session reached the client meanwhile.
    expect((await settled(client, sessionId)).before).toEqual([]);
  });

  test("cancels nothing, and its notifications reach nobody", async () => {
    const opened = await openSession();
    const { client, agent, workspace, sessionId } = opened;
    const other = await join(opened);
    const id = other.call("session/prompt", prompt(sessionId));
    const running = await agent.line();
    await client.request("session/detach", { sessionId });
    const before = (await events(workspace, sessionId)).length;
    client.notify("session/cancel", { sessionId });
    client.notify("_vendor/note", { sessionId });
    await settled(client, sessionId);
    expect(await events(workspace, sessionId)).toHaveLength(before);
    agent.answer(running, { stopReason: "end_turn" });
    expect((await other.until(id)).response.result).toEqual({ stopReason: "end_turn" });
    expect((await settled(client, sessionId)).before).toEqual([]);
  });

  test("comes back by a request, and is offered what is open", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    await join(opened);
    agent.items(PERMISSION.request);
    const asked = await client.takeJson();
    await client.request("session/close", { sessionId });
    const id = client.call("session/prompt", prompt(sessionId));
    expect(await client.takeJson()).toEqual(asked);
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: PERMISSION.ours }));
    const running = await agent.line();
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "q", result: PERMISSION.ours });
    agent.answer(running, { stopReason: "end_turn" });
    const { response } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect((await view(opened)).clients).toHaveLength(2);
  });

  test.each(TRANSPORTS)("over $name decides no permission request", async (transport) => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await transport.open(workspace);
    const opening = await client.call("session/new", { cwd: "/", mcpServers: [] });
    const agent = await host.agent();
    await agent.openSession();
    const { sessionId } = (await client.answerTo(opening)).result as { sessionId: string };
    await client.follow(sessionId);
    agent.items(PERMISSION.request);
    const isRequest = ({ method }: Json) => method === "session/request_permission";
    await client.until(() => client.read.some(isRequest));
    const { id } = client.read.find(isRequest) as Json;
    await client.request("session/detach", { sessionId });
    await client.send({ jsonrpc: "2.0", id, result: PERMISSION.theirs }, sessionId);
    await client.request("session/detach", { sessionId });
    expect((await view({ workspace, sessionId })).clients).toEqual([]);
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    await client.until(() => client.read.filter(isRequest).length === 2);
    await client.send({ jsonrpc: "2.0", id, result: PERMISSION.ours }, sessionId);
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "q", result: PERMISSION.ours });
  });
});
