import { evictDurableObject, listDurableObjectIds } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import type { Json } from "../fixtures/json.ts";
import { randomFrom } from "../fixtures/random.ts";
import { events, get, type Opened, openSession, prompt, sessionStub, texts } from "./fixtures.ts";
import { type Agent, updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { token } from "./tokens.ts";

const PERMISSION = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "session/request_permission",
  params: { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options: [] },
});

async function join(
  { workspace, sessionId }: Opened,
  query = "",
  claims: { scopes?: string[]; subject?: string } = {},
): Promise<Client> {
  const client = await Client.open(workspace, query, "acme", claims);
  await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  return client;
}

type View = { clients: Json[]; pendingPermissions: { seq: number }[] };

/** The session as the REST surface shows it. */
async function view({ workspace, sessionId }: Opened): Promise<View> {
  return (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
}

function mark(agent: Agent, name: string): void {
  agent.items(JSON.stringify({ jsonrpc: "2.0", method: "_mark", params: { name } }));
}

async function upToMark(client: Client, name: string): Promise<Json[]> {
  const got: Json[] = [];
  for (;;) {
    const message = await client.takeJson();
    if (message.method === "_mark" && (message.params as Json).name === name) return got;
    got.push(message);
  }
}

describe("an observer", () => {
  test.each([
    ["by its own wish", "&role=observer", undefined],
    ["by its token", "", ["session:read"]],
  ])("[I12] (%s) reads everything and changes nothing", async (_, query, scopes) => {
    const opened = await openSession();
    const { client, agent, sessionId, workspace } = opened;
    const observer = await join(opened, query, scopes ? { scopes } : {});
    const id = client.call("session/prompt", prompt(sessionId, "hello"));
    const request = await agent.line();
    agent.update("hi");
    agent.items(PERMISSION);
    agent.update("there");
    mark(agent, "all");
    const shown = await upToMark(observer, "all");
    expect(shown.map((message) => message.method)).toEqual([
      "session/update",
      "session/update",
      "session/update",
    ]);
    expect(texts(shown)).toEqual(["hi", "there"]);

    for (const method of ["session/prompt", "session/set_mode", "session/close", "_vendor/do"]) {
      const { response } = await observer.request(method, prompt(sessionId));
      expect(response.error).toMatchObject({ code: -32003, message: expect.stringContaining("observers") });
    }
    for (const method of ["session/new", "session/fork", "session/delete", "authenticate"]) {
      const { response } = await observer.request(method, { sessionId, cwd: "/", mcpServers: [] });
      expect(response.error).toMatchObject({ code: -32003 });
    }
    observer.notify("session/cancel", { sessionId });
    const asked = await view(opened);
    const answer = { outcome: { outcome: "selected", optionId: "x" } };
    const requestId = `${sessionId}:${asked.pendingPermissions[0]?.seq}`;
    observer.send(JSON.stringify({ jsonrpc: "2.0", id: requestId, result: answer }));
    await observer.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });

    // The turn goes on and the permission is still open.
    expect((await view(opened)).pendingPermissions).toHaveLength(1);
    agent.answer(request, { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
    const kinds = (await events(workspace, sessionId)).map((event) => event.kind);
    expect(kinds.filter((kind) => String(kind).startsWith("turn."))).toEqual([
      "turn.started",
      "turn.completed",
    ]);
  });

  test("reads a closed session without opening it again", async () => {
    const opened = await openSession();
    const { client, sessionId } = opened;
    await client.request("session/close", { sessionId });
    await join(opened, "&role=observer");
    expect(await view(opened)).toMatchObject({ state: "completed" });
    await join(opened);
    expect(await view(opened)).toMatchObject({ state: "active" });
  });

  test("is not what a token without any right makes", async () => {
    const { workspace } = await openSession();
    await expect(Client.raw(workspace, "", "acme", { scopes: ["share"] })).rejects.toThrow("403");
  });
});

describe("a client on a plain WebSocket that does not read", () => {
  test("[I3] is probed, gets no more before it answers, and holds up nobody", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    client.answersPings = false;
    const other = await Client.open(workspace);
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const text = "x".repeat(200_000);
    const count = Math.ceil((2 * DEFAULT_LIMITS.unreadChars) / text.length);
    for (let i = 0; i < count; i += 1) agent.items(updateText(`${i} ${text}`));
    const read = async (peer: Client): Promise<string[]> => {
      const seen: Record<string, unknown>[] = [];
      while (texts(seen).length < count && seen.at(-1)?.method !== "_acp-edge/ping")
        seen.push(await peer.takeJson());
      return texts(seen);
    };
    const all = await read(other);
    expect(all).toHaveLength(count);
    const some = await read(client);
    expect(some.join("").length).toBeLessThan(DEFAULT_LIMITS.unreadChars + 2 * DEFAULT_LIMITS.deliverChars);
    client.answersPings = true;
    client.send('{"jsonrpc":"2.0","id":"acp-edge/ping","result":{}}');
    const rest: string[] = [];
    while (some.length + rest.length < count) rest.push(...texts([await client.takeJson()]));
    expect([...some, ...rest]).toEqual(all);
  });
});

describe("presence", () => {
  test("[I9] lists the attached clients across an eviction, and is no part of the history", async () => {
    const opened = await openSession();
    const { sessionId, workspace } = opened;
    const observer = await join(opened, "&role=observer", { subject: "onlooker" });
    await evictDurableObject(sessionStub(sessionId));
    const { clients } = await view(opened);
    expect(clients).toMatchObject([
      { subject: "someone", role: "controller" },
      { subject: "onlooker", role: "observer" },
    ]);
    for (const { since, connection } of clients) {
      expect(Date.parse(since as string)).toBeGreaterThan(0);
      expect(connection).toMatch(/^[0-9a-f-]{36}$/);
    }
    observer.socket.close();
    await vi.waitFor(async () => expect((await view(opened)).clients).toHaveLength(1));
    expect(JSON.stringify(await events(workspace, sessionId))).not.toContain("onlooker");
  });
});

/** A client that reconnects after each disconnect and continues from its cursor. */
class Returning {
  readonly stream: string[] = [];
  readonly done: Promise<void>;
  #opened: Opened;
  #client: Client | undefined;
  #wanted = 1;

  constructor(opened: Opened, last: string) {
    this.#opened = opened;
    this.done = this.#run(last);
  }

  drop(): void {
    this.#client?.socket.close();
  }

  async #run(last: string): Promise<void> {
    while (this.stream.at(-1) !== last) {
      const { workspace, sessionId } = this.#opened;
      const client = await Client.open(workspace);
      this.#client = client;
      // A replay of the whole conversation merges chunks and would hide their order. After a cursor every frame stays
      // separate.
      client.call("session/load", {
        sessionId,
        cwd: "/",
        mcpServers: [],
        _meta: { "acp-edge/after": 0 },
      });
      await this.#read(client, last);
    }
    this.#client?.socket.close();
  }

  /** Takes new messages up to the last one or the end of the socket. */
  async #read(client: Client, last: string): Promise<void> {
    let seen = 0;
    const gone = client.closed.then(() => undefined);
    for (;;) {
      const text = await Promise.race([client.take(), gone]);
      if (text === undefined) return;
      const message = JSON.parse(text) as Json;
      if (message.method !== "session/update") continue;
      seen += 1;
      const said = texts([message])[0] as string;
      if (seen < this.#wanted) expect(said).toBe(this.stream[seen - 1]);
      else {
        this.stream.push(said);
        this.#wanted += 1;
      }
      if (said === last) return;
    }
  }
}

describe("twenty clients on one session", () => {
  test.each([1, 2])(
    "[I6] all end with the identical stream through random disconnects (seed %i)",
    async (seed) => {
      const opened = await openSession();
      const { agent, sessionId } = opened;
      const random = randomFrom(seed);
      const said = Array.from({ length: 300 }, (_, i) => `word ${i}`);
      const clients = Array.from({ length: 20 }, () => new Returning(opened, said.at(-1) as string));
      for (const [i, word] of said.entries()) {
        agent.update(word);
        if (random.chance(0.2)) random.pick(clients).drop();
        if (random.chance(0.1)) await scheduler.wait(random.below(10));
        if (i === 150) await evictDurableObject(sessionStub(sessionId));
        if (i === 150) await agent.reconnect();
      }
      await Promise.all(clients.map((client) => client.done));
      for (const { stream } of clients) expect(stream).toEqual(said);
    },
  );
});

describe("a reconnect storm", () => {
  test("creates neither agents nor sessions", async () => {
    const opened = await openSession();
    const { agent, client, sessionId, host, workspace } = opened;
    const before = (await listDurableObjectIds(env.ACP_SESSION_DO)).length;
    for (let i = 0; i < 50; i += 1) {
      const storm = await Client.open(workspace);
      const loading = storm.call("session/load", { sessionId, cwd: "/", mcpServers: [] });
      if (i % 3 === 0) await storm.until(loading);
      storm.socket.close();
    }
    expect((await listDurableObjectIds(env.ACP_SESSION_DO)).length).toBe(before);
    const kinds = (await events(workspace, sessionId)).map((event) => event.kind);
    expect(kinds.filter((kind) => kind === "runtime.connected")).toHaveLength(1);
    expect(kinds).not.toContain("runtime.reconnect_attempt");
    // The host got no process request meanwhile: its next one is for a session that really is new.
    const id = client.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(id);
    client.call("session/new", { cwd: "/", mcpServers: [] });
    expect((await host.agent()).sessionId).not.toBe(sessionId);
    await vi.waitFor(async () => expect((await view(opened)).clients).toHaveLength(1));
  });
});
