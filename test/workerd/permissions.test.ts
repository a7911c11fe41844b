import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { removeSession, type SessionIndexEntry, writeSession } from "../../src/index/session-index.ts";
import type { Json } from "../fixtures/json.ts";
import { events, get, type Opened, openSession, send, sessionStub, workspaceName } from "./fixtures.ts";
import type { Agent } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

const OPTIONS = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "always", name: "Always", kind: "allow_always" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];

function ask(
  agent: Agent,
  id: unknown,
  { kind = "edit", options = OPTIONS as Json[], toolCallId = "t1" } = {},
) {
  const toolCall = { toolCallId, title: "Write a file", kind };
  const params = { sessionId: "agent-session", toolCall, options };
  agent.items(JSON.stringify({ jsonrpc: "2.0", id, method: "session/request_permission", params }));
}

/** A session with a running turn, which can be cancelled. */
async function running(opened: Opened): Promise<{ request: Json & { id?: number }; id: number }> {
  const { client, agent, sessionId } = opened;
  const id = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
  return { request: await agent.line(), id };
}

async function join({ workspace, sessionId }: Opened, query = ""): Promise<Client> {
  const client = await Client.open(workspace, query);
  await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  return client;
}

const selected = (optionId: string) => ({ outcome: { outcome: "selected", optionId } });

function reply(client: Client, id: unknown, optionId: string): void {
  client.send(JSON.stringify({ jsonrpc: "2.0", id, result: selected(optionId) }));
}

async function notes({ workspace, sessionId }: Opened, kind: string): Promise<Json[]> {
  const all = await events(workspace, sessionId);
  return all.filter((event) => event.kind === kind).map((event) => event.payload as Json);
}

/** The messages a client gets up to a mark that the agent sends. */
async function seen(client: Client, agent: Agent, mark: string): Promise<Json[]> {
  agent.items(JSON.stringify({ jsonrpc: "2.0", method: "_mark", params: { mark } }));
  return upToMark(client, mark);
}

async function upToMark(client: Client, mark: string): Promise<Json[]> {
  const got: Json[] = [];
  for (;;) {
    const message = await client.takeJson();
    if (message.method === "_mark" && (message.params as Json).mark === mark) return got;
    got.push(message);
  }
}

describe("a permission request to several clients", () => {
  test("is settled by the first answer, and withdrawn from the others under their own id", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const second = await join(opened);
    ask(agent, 7);
    const asked = await client.takeJson();
    expect(await second.takeJson()).toEqual(asked);
    reply(second, asked.id, "yes");
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 7, result: selected("yes") });
    expect(await client.takeJson()).toEqual({
      jsonrpc: "2.0",
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
    // The second answer goes nowhere, and the first client gets no withdrawal.
    reply(client, asked.id, "no");
    expect(await seen(second, agent, "m")).toEqual([]);
    const [decision, ...more] = await notes(opened, "permission.responded");
    expect(more).toEqual([]);
    expect(decision).toMatchObject({ outcome: { optionId: "yes" }, subject: "someone", why: "answered" });
    expect(asked.id).toBe(`${sessionId}:${decision?.request}`);
  });

  test("is not withdrawn from clients that never saw it", async () => {
    const opened = await openSession();
    const { client, agent } = opened;
    ask(agent, 1);
    const asked = await client.takeJson();
    reply(client, asked.id, "yes");
    await agent.line();
    const late = await join(opened);
    expect(await seen(late, agent, "m")).toEqual([]);
  });

  test("is sent to a client that attaches while it is open, and withdrawn when it is settled", async () => {
    const opened = await openSession();
    const { client, agent } = opened;
    ask(agent, 1);
    const asked = await client.takeJson();
    const late = await join(opened);
    expect(await late.takeJson()).toEqual(asked);
    reply(client, asked.id, "no");
    expect(await late.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
  });

  test("is sent to a client that prompts without having attached", async () => {
    const opened = await openSession();
    const { agent, client, workspace, sessionId } = opened;
    ask(agent, 1);
    const asked = await client.takeJson();
    const late = await Client.open(workspace);
    late.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
    expect(await late.takeJson()).toEqual(asked);
  });

  test("is withdrawn from every client when the turn is cancelled, the process ends or the agent cancels it", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const second = await join(opened);
    await running(opened);
    const askedOfBoth = async (id: unknown) => {
      ask(agent, id);
      const asked = await second.takeJson();
      if (asked.method !== "session/request_permission") return askedAgain(second);
      return asked.id;
    };
    const askedAgain = async (peer: Client) => (await peer.takeJson()).id;
    const cancel = (requestId: unknown) => ({
      jsonrpc: "2.0",
      method: "$/cancel_request",
      params: { requestId },
    });

    const first = await askedOfBoth("a");
    client.notify("session/cancel", { sessionId });
    expect(await second.takeJson()).toEqual(cancel(first));
    expect(await agent.line()).toMatchObject({ method: "session/cancel" });
    expect(await agent.line()).toMatchObject({ id: "a", result: { outcome: { outcome: "cancelled" } } });

    const other = await askedOfBoth("b");
    agent.items('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"b"}}');
    expect(await second.takeJson()).toEqual(cancel(other));
    expect(await agent.line()).toMatchObject({ id: "b", error: { code: -32800 } });

    const last = await askedOfBoth("c");
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    expect(await second.takeJson()).toEqual(cancel(last));
    expect(await notes(opened, "permission.withdrawn")).toHaveLength(2);
  });
});

describe("a pending permission request", () => {
  test("[I7] survives disconnects and eviction, and is answered over REST with nobody attached", async () => {
    const opened = await openSession();
    const { client, agent, sessionId, workspace } = opened;
    ask(agent, "p");
    const asked = await client.takeJson();
    client.socket.close();
    await client.closed;
    await evictDurableObject(sessionStub(sessionId));
    const bearer = await token({ workspace, subject: "phone" });
    const list = async () =>
      (await (await get("/api/permissions?state=pending", bearer)).json<{ permissions: Json[] }>())
        .permissions;
    await vi.waitFor(async () => expect(await list()).toHaveLength(1));
    expect(await list()).toMatchObject([
      {
        id: asked.id,
        sessionId,
        workspace,
        toolCallId: "t1",
        title: "Write a file",
        kind: "edit",
        options: OPTIONS,
      },
    ]);
    const wrong = await send("POST", `/api/permissions/${asked.id}`, bearer, { optionId: "maybe" });
    expect(wrong.status).toBe(400);
    expect(await wrong.json()).toMatchObject({
      error: { code: "bad_option", options: OPTIONS },
    });
    const right = await send("POST", `/api/permissions/${asked.id}`, bearer, { optionId: "yes" });
    expect(right.status).toBe(200);
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "p", result: selected("yes") });
    expect(await notes(opened, "permission.responded")).toMatchObject([
      { by: "rest", subject: "phone", outcome: { optionId: "yes" } },
    ]);
    const again = await send("POST", `/api/permissions/${asked.id}`, bearer, { optionId: "yes" });
    expect(again.status).toBe(404);
    await vi.waitFor(async () => expect(await list()).toEqual([]));
  });

  test("is in the index as of its newest write, in whatever order the writes arrive", async () => {
    const row = (lastSeq: number, permissions: Json[]): SessionIndexEntry => ({
      sessionId,
      tenant: "acme",
      workspace,
      agent: "scripted",
      cwd: "/",
      clientCwd: "/",
      title: null,
      archived: false,
      state: "active",
      createdAt: "",
      updatedAt: "",
      lastSeq,
      usage: [],
      permissions: JSON.stringify(permissions),
      questions: "[]",
    });
    const sessionId = crypto.randomUUID();
    const workspace = `w-${sessionId}`;
    const since = new Date(0).toISOString();
    const listed = async () =>
      (
        await (await get("/api/permissions", await token({ workspace }))).json<{ permissions: Json[] }>()
      ).permissions.map(({ seq }) => seq);
    await writeSession(
      env.INDEX,
      row(5, [
        { seq: 4, since },
        { seq: 5, since },
      ]),
    );
    expect(await listed()).toEqual([4, 5]);
    await writeSession(env.INDEX, row(9, [{ seq: 9, since }]));
    await writeSession(env.INDEX, row(7, [{ seq: 4, since }]));
    expect(await listed()).toEqual([9]);
    await writeSession(env.INDEX, row(9, [{ seq: 9, since }]));
    expect(await listed()).toEqual([9]);
    await removeSession(env.INDEX, { tenant: "acme", sessionId });
    expect(await listed()).toEqual([]);
  });

  test("is invisible to strangers, who cannot answer it", async () => {
    const opened = await openSession();
    const { client, agent, workspace } = opened;
    ask(agent, "p");
    const { id } = await client.takeJson();
    const answer = async (bearer: string) =>
      (await send("POST", `/api/permissions/${id}`, bearer, { optionId: "yes" })).status;
    expect(await answer(await token({ workspace, tenant: "other" }))).toBe(404);
    expect(await answer(await token({ workspace: "elsewhere" }))).toBe(404);
    expect(await answer(await token({ workspace, scopes: ["session:read"] }))).toBe(403);
    const stranger = await token({ workspace: "elsewhere" });
    expect(await (await get("/api/permissions", stranger)).json()).toMatchObject({ permissions: [] });
    expect((await send("POST", "/api/permissions/nonsense", await token({ workspace }), {})).status).toBe(
      404,
    );
  });

  test("is sent again by an agent that was restarted", async () => {
    const opened = await openSession();
    const { client, agent, host, sessionId } = opened;
    const { id } = await running(opened);
    ask(agent, 1);
    const first = await client.takeJson();
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await client.until(id);
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "again" }] });
    const next = await host.agent();
    await next.openSession();
    expect(await next.line()).toMatchObject({ method: "session/prompt" });
    ask(next, 1);
    const { before } = await untilMethod(client, "session/request_permission");
    const second = before.at(-1) as Json;
    expect(second.id).not.toBe(first.id);
    reply(client, second.id, "yes");
    expect(await next.line()).toMatchObject({ id: 1, result: selected("yes") });
  });
});

async function untilMethod(client: Client, method: string): Promise<{ before: Json[] }> {
  const before: Json[] = [];
  for (;;) {
    before.push(await client.takeJson());
    if (before.at(-1)?.method === method) return { before };
  }
}

describe("a workspace's permission policy", () => {
  const ADMIN = ["session:read", "workspace:admin"];

  async function put(workspace: string, policy: unknown): Promise<Response> {
    return send("PUT", `/api/workspaces/${workspace}`, await token({ workspace, scopes: ADMIN }), { policy });
  }

  test("answers each request once and never for always, and the log says so", async () => {
    const opened = await openSession();
    const { client, agent, workspace } = opened;
    expect((await put(workspace, { byKind: { edit: "allow", execute: "reject" } })).status).toBe(200);
    ask(agent, 1, { kind: "edit" });
    expect(await agent.line()).toMatchObject({ id: 1, result: selected("yes") });
    ask(agent, 2, { kind: "execute" });
    expect(await agent.line()).toMatchObject({ id: 2, result: selected("no") });
    // A request without an allow-once option waits for a person. A request without a reject-once option is cancelled.
    ask(agent, 3, { kind: "execute", options: [] });
    expect(await agent.line()).toMatchObject({ id: 3, result: { outcome: { outcome: "cancelled" } } });
    ask(agent, 4, { kind: "edit", options: [OPTIONS[1] as Json] });
    const asked = await client.takeJson();
    expect(asked).toMatchObject({
      method: "session/request_permission",
      params: { toolCall: { kind: "edit" } },
    });
    expect(await notes(opened, "permission.responded")).toMatchObject([
      { by: "policy", why: "edit is allow by policy" },
      { by: "policy", why: "execute is reject by policy" },
      { by: "policy", why: "execute is reject by policy, without reject_once" },
    ]);
    // All of this follows from the log.
    const view = async () =>
      (await get(`/api/sessions/${opened.sessionId}`, await token({ workspace }))).json();
    const before = await view();
    await evictDurableObject(sessionStub(opened.sessionId));
    expect(await view()).toEqual(before);
    ask(agent, 5, { kind: "execute" });
    expect(await agent.line()).toMatchObject({ id: 5, result: selected("no") });
  });

  test("reaches later sessions and the requests that are open when it changes", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    await put(workspace, { default: "allow" });
    const client = await Client.open(workspace);
    const opening = client.newSession();
    const agent = await host.agent();
    await agent.openSession();
    await opening;
    ask(agent, 1);
    expect(await agent.line()).toMatchObject({ result: selected("yes") });
    await put(workspace, { default: "ask" });
    ask(agent, 2);
    const { id } = await client.takeJson();
    await put(workspace, { default: "reject" });
    expect(await agent.line()).toMatchObject({ id: 2, result: selected("no") });
    expect(await client.takeJson()).toMatchObject({ method: "$/cancel_request", params: { requestId: id } });
  });

  test("rejects by an alarm a request nobody answers in time", async () => {
    const opened = await openSession();
    const { client, agent, workspace, sessionId } = opened;
    await put(workspace, { timeoutMs: 200 });
    ask(agent, 1);
    const { id } = await client.takeJson();
    client.socket.close();
    const stub = sessionStub(sessionId);
    await vi.waitFor(async () => {
      await runDurableObjectAlarm(stub);
      expect(await notes(opened, "permission.responded")).toMatchObject([
        { by: "policy", why: "nobody answered within 200 ms", outcome: { optionId: "no" } },
      ]);
    });
    expect(await agent.line()).toMatchObject({ id: 1, result: selected("no") });
    expect(id).toBeDefined();
  });

  test("can be read, is validated, and is changed by administrators", async () => {
    const { workspace } = await openSession();
    const bearer = await token({ workspace });
    const read = async () => (await get(`/api/workspaces/${workspace}`, bearer)).json();
    expect(await read()).toMatchObject({
      policy: { default: "ask", byKind: {}, timeoutMs: null, onTimeout: "reject" },
    });
    expect((await put(workspace, { default: "sometimes" })).status).toBe(400);
    expect((await put(workspace, { typo: 1 })).status).toBe(400);
    const response = await send("PUT", `/api/workspaces/${workspace}`, bearer, { policy: {} });
    expect(response.status).toBe(403);
    await put(workspace, { byKind: { read: "allow" } });
    expect(await read()).toMatchObject({ policy: { default: "ask", byKind: { read: "allow" } } });
  });
});
