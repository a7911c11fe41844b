import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { LIMITS } from "../../src/protocol/limits.ts";
import { AcpSession } from "../../src/session/acp-session.ts";
import {
  Client,
  events,
  get,
  HELLO,
  Host,
  openSession,
  Peer,
  send,
  sessionStub,
  texts,
  token,
} from "./harness.ts";

type Json = Record<string, unknown>;

const name = () => `w-${crypto.randomUUID()}`;
const prompt = (sessionId: string, text = "go") => ({ sessionId, prompt: [{ type: "text", text }] });
const admin = (workspace: string) => token({ workspace, scopes: ["session:read", "workspace:admin"] });
const CAN_RESUME = { sessionCapabilities: { resume: {} } };

async function set(workspace: string, change: Json): Promise<Json> {
  const response = await send("PUT", `/api/workspaces/${workspace}`, await admin(workspace), change);
  expect(response.status, await response.clone().text()).toBe(200);
  return response.json();
}

async function view(workspace: string): Promise<Json> {
  return (await get(`/api/workspaces/${workspace}`, await token({ workspace }))).json();
}

async function session(workspace: string, sessionId: string): Promise<Json> {
  return (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
}

async function kinds(workspace: string, sessionId: string): Promise<string[]> {
  return (await events(workspace, sessionId)).map((event) => event.kind as string);
}

/** Waits until the log has an event of a kind. */
async function logged(workspace: string, sessionId: string, kind: string): Promise<void> {
  await vi.waitUntil(async () => (await kinds(workspace, sessionId)).includes(kind), { timeout: 10_000 });
}

const stub = (workspace: string) => env.WORKSPACE_STATE_DO.getByName(`acme/${workspace}`);

describe("placement", () => {
  it("spreads new sessions over the hosts", async () => {
    const workspace = name();
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

  it("keeps a session on its host, which need not be the one with the least to do", async () => {
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

  it("gives a session that was opened before any agent was known the default one", async () => {
    const workspace = name();
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

  it("forgets sessions that have no process and want none", async () => {
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

  it.each(["is started again", "is drained"])(
    "opens a session elsewhere whose host %s while it opens it, and the client sees no difference",
    async (how) => {
      const workspace = name();
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

  it("says which host it has waited for", async () => {
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
        /^No host has started an agent in time: waited for host "h1", which is gone/,
      ),
    });
  });
});

describe("a host that is away for too long", () => {
  it("loses its sessions to another if all hosts have the files; when it is back, it lets go of them", async () => {
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
    const stale = new Peer(await Host.dial(workspace, `/host/sessions/${sessionId}`));
    const { run, wish } = agent;
    stale.send(
      JSON.stringify({
        t: "hello",
        run,
        agent: "scripted",
        host: "h1",
        root: "/workspace",
        wish,
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

  it("pauses its sessions otherwise, and when it is back the turn goes on", async () => {
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

  it("moves its sessions as soon as someone says that the files are shared", async () => {
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

  it("is not waited for by a session that is closed", async () => {
    const { workspace, host, client, sessionId } = await openSession();
    await set(workspace, { hostGraceMs: 100 });
    await host.leave();
    await logged(workspace, sessionId, "runtime.paused");
    await client.request("session/close", { sessionId });
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 0);
    expect(await session(workspace, sessionId)).toMatchObject({ state: "completed", host: null });
  });

  it("is found out when it goes without a word", async () => {
    const { workspace, host, sessionId } = await openSession();
    await set(workspace, { hostGraceMs: 100 });
    host.answersProbes = false;
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      vi.setSystemTime(Date.now() + LIMITS.hostSilentMs + 1);
      await runInDurableObject(stub(workspace), async (instance, { storage }) => {
        storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'silence'");
        await instance.alarm();
      });
    } finally {
      vi.useRealTimers();
    }
    expect((await host.closed).code).toBe(4408);
    await logged(workspace, sessionId, "runtime.paused");
  });
});

describe("draining", () => {
  it("ends idle processes at once, others after their turn, and places nothing new there", async () => {
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

  it("leaves what waits to the host's next life if nobody else has the files", async () => {
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

  it("goes on when the host was cut off meanwhile", async () => {
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

  it("and a goodbye leave nothing to wait for", async () => {
    const { workspace, host, client, agent, sessionId } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    await agent.line();
    await host.leave(1000);
    expect((await client.until(id)).response.error).toMatchObject({ data: { outcome: "unknown" } });
    await vi.waitUntil(async () => ((await view(workspace)).sessions as Json).total === 0);
  });

  it("that ends too soon fails the turn, and the log says why", async () => {
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

describe("two hosts of one name", () => {
  it("the one that is there keeps it", async () => {
    const workspace = name();
    await Host.join(workspace);
    const peer = new Peer(await Host.dial(workspace, "/host/control"));
    peer.send(JSON.stringify({ ...HELLO, instance: "newcomer" }));
    expect(await peer.takeJson()).toMatchObject({
      t: "refused",
      why: "name",
      reason: expect.stringContaining('"h1"'),
    });
    expect((await peer.closed).code).toBe(4410);
    expect((await view(workspace)).hosts).toMatchObject([{ name: "h1", state: "connected" }]);
  });

  it("one that does not answer loses it", async () => {
    const workspace = name();
    const host = await Host.join(workspace);
    host.answersProbes = false;
    const next = new Host(await Host.dial(workspace, "/host/control"), workspace);
    const { instance } = next;
    const agents = [{ id: "better", name: "Better", default: true }];
    next.send(JSON.stringify({ ...HELLO, instance, agents }));
    next.tell({ t: "agent", id: "better", initialize: { protocolVersion: 1 } });
    expect((await next.takeJson()).t).toBe("welcome");
    expect(await host.closed).toMatchObject({ code: 4409 });
    // What it said while the other one was asked counts.
    await vi.waitUntil(async () => ((await view(workspace)).agents as Json[])[0]?.ready === true);
    const client = await Client.open(workspace);
    const opening = client.newSession();
    await (await next.agent()).openSession();
    await opening;
  });

  it("one that comes back takes over its own old socket at once", async () => {
    const workspace = name();
    const host = await Host.join(workspace);
    host.answersProbes = false;
    await Host.join(workspace, { instance: host.instance });
    expect(await host.closed).toMatchObject({ code: 4408 });
    expect((await view(workspace)).hosts).toMatchObject([{ name: "h1", state: "connected" }]);
  });
});

describe("a workspace", () => {
  it("that nobody knows looks empty, and looking leaves no trace", async () => {
    const workspace = name();
    expect(await view(workspace)).toMatchObject({
      id: workspace,
      hosts: [],
      agents: [],
      git: null,
      root: null,
    });
    const rights = { workspaces: [workspace], scopes: ["session:read"], expires: 0 } as const;
    await stub(workspace).choose({ tenant: "acme", subject: "someone", ...rights }, null);
    await stub(workspace).release("s", 1);
    const tables = await runInDurableObject(stub(workspace), (_, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
    );
    expect(tables).toEqual([]);
  });

  it("is configured piece by piece", async () => {
    const workspace = name();
    await set(workspace, { name: "Backend", sharedFiles: true });
    expect(await set(workspace, { defaultAgent: "scripted", clientIo: "client" })).toMatchObject({
      name: "Backend",
      sharedFiles: true,
      defaultAgent: "scripted",
      clientIo: "client",
      hostGraceMs: LIMITS.hostGraceMs,
      container: null,
      policy: { default: "ask" },
    });
    for (const bad of [
      null,
      {},
      { hostGraceMs: 1 },
      { unknown: 1 },
      { container: { env: ["A=b"] } },
      { container: {} },
    ]) {
      const response = await send("PUT", `/api/workspaces/${workspace}`, await admin(workspace), bad);
      expect(response.status).toBe(400);
    }
    const response = await send("PUT", `/api/workspaces/${workspace}`, await token({ workspace }), {
      name: "x",
    });
    expect(response.status).toBe(403);
  });

  it("shows its hosts, how they are, and the files; a session shows them too", async () => {
    const { workspace, host, sessionId } = await openSession();
    const git = {
      branch: "main",
      head: "abc",
      ahead: 1,
      behind: 0,
      modifiedFiles: ["a.ts"],
      modifiedCount: 1,
    };
    host.tell({ t: "workspace", git });
    host.tell({ t: "load", runs: 1, loadAverage: 0.5, freeMemory: 1000 });
    await vi.waitUntil(async () => (await view(workspace)).git !== null);
    expect(await view(workspace)).toMatchObject({
      root: "/workspace",
      git,
      hosts: [
        {
          name: "h1",
          state: "connected",
          version: "1.2.3",
          linkVersion: HELLO.version,
          node: "v24.0.0",
          platform: "linux x64",
          load: { sessions: 1, runs: 1, capacity: 8, loadAverage: 0.5, freeMemory: 1000 },
          agents: ["scripted"],
        },
      ],
      agents: [{ id: "scripted", default: true, ready: true }],
    });
    expect(await session(workspace, sessionId)).toMatchObject({
      workspaceState: { currentBranch: "main", modifiedFiles: ["a.ts"] },
    });
    await host.leave();
    expect((await view(workspace)).hosts).toMatchObject([
      { name: "h1", state: "gone", agents: ["scripted"] },
    ]);
  });

  it("remembers a host after a crash of its own, and knows that it is gone", async () => {
    const { workspace, host } = await openSession();
    await expect(runInDurableObject(stub(workspace), (_, state) => state.abort("crash"))).rejects.toThrow();
    await host.closed;
    expect((await view(workspace)).hosts).toMatchObject([{ name: "h1", state: "gone" }]);
  });

  it("tells a session its policy again if it could not be told", async () => {
    const { workspace, sessionId } = await openSession();
    const policy = vi.spyOn(AcpSession.prototype, "policy").mockImplementationOnce(() => {
      throw new Error("out of reach");
    });
    try {
      await set(workspace, { policy: { default: "reject" } });
      expect(await kinds(workspace, sessionId)).not.toContain("permission.policy");
      await runInDurableObject(stub(workspace), async (instance, { storage }) => {
        storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'words'");
        await instance.alarm();
      });
      expect(await kinds(workspace, sessionId)).toContain("permission.policy");
      expect(policy).toHaveBeenCalledTimes(2);
    } finally {
      policy.mockRestore();
    }
  });

  it("is in the list of those who may use it", async () => {
    const [one, two] = [name(), name()];
    await set(one, { name: "One" });
    await Host.join(two);
    const list = async (bearer: string, query = "") =>
      (await (await get(`/api/workspaces${query}`, bearer)).json()) as {
        workspaces: Json[];
        nextCursor: string | null;
      };
    await vi.waitUntil(async () => (await list(await token({ workspace: two }))).workspaces.length === 1, {
      timeout: 10_000,
    });
    expect((await list(await token({ workspace: one }))).workspaces).toMatchObject([
      { id: one, name: "One", hosts: 0 },
    ]);
    expect((await list(await token({ workspace: two }))).workspaces).toMatchObject([
      { id: two, root: "/workspace", hosts: 1, defaultAgent: "scripted" },
    ]);
    expect((await list(await token({ workspace: two, tenant: "other" }))).workspaces).toEqual([]);

    const everyone = await token({ workspace: "*" });
    const seen: unknown[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page = await list(everyone, `?limit=1${query}`);
      seen.push(...page.workspaces.map(({ id }) => id));
      cursor = page.nextCursor;
    }
    expect(seen).toEqual(expect.arrayContaining([one, two]));
    expect(new Set(seen).size).toBe(seen.length);
  });

  it("can be watched", async () => {
    const workspace = name();
    const response = await exports.default.fetch(`https://edge.test/api/workspaces/${workspace}`, {
      headers: { Authorization: `Bearer ${await token({ workspace })}`, Accept: "text/event-stream" },
    });
    expect(response.headers.get("Content-Type")).toContain("text/event-stream");
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const next = async () => {
      const text = new TextDecoder().decode((await reader.read()).value);
      return JSON.parse(text.replace(/^data: /, "")) as Json;
    };
    expect(await next()).toMatchObject({ id: workspace, hosts: [] });
    const host = await Host.join(workspace);
    expect(await next()).toMatchObject({ id: workspace, hosts: [{ name: "h1", state: "connected" }] });
    await host.leave();
    for (;;) if (((await next()).hosts as Json[])[0]?.state === "gone") break;
    await reader.cancel();
  });
});
