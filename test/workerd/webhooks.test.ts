import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from "vitest";
import { readAnswerLink } from "../../src/auth/answer-link.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import type { AcpSession } from "../../src/session/acp-session.ts";
import type { WebhookInfo } from "../../src/workspace/webhooks/store.ts";
import { Webhooks } from "../../src/workspace/webhooks/webhooks.ts";
import { WorkspaceState } from "../../src/workspace/workspace-state.ts";
import { Client, get, Host, type Opened, openSession, send, sessionStub, token } from "./harness.ts";
import { setLimits } from "./limits.ts";

/** Webhooks of a workspace: what its sessions have to tell, and how it reaches those who asked. */

type Json = Record<string, unknown>;
type Made = WebhookInfo & { secret: string };
type Message = { type: string; timestamp: string; data: Json };
/** What came, as it was verified. */
type Received = { url: string; id: string; timestamp: number; message: Message };

const ADMIN = ["session:read", "session:prompt", "permission:answer", "workspace:admin"];

/** The world outside: answers with what the test says, and keeps what it was sent. */
class Receiver {
  readonly requests: Request[] = [];
  readonly received: Received[] = [];
  readonly secrets = new Map<string, string>();
  answer: (request: Request) => Response | Promise<Response> = () => new Response(null, { status: 204 });

  async fetch(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const request = new Request(input, init);
    this.requests.push(request);
    const body = await request.clone().text();
    const headers = Object.fromEntries(request.headers);
    const secret = this.secrets.get(request.url);
    if (secret === undefined) throw new Error("Nobody knows this receiver");
    const message = new Webhook(secret).verify(body, headers) as Message;
    const { "webhook-id": id = "", "webhook-timestamp": timestamp } = headers;
    this.received.push({ url: request.url, id, timestamp: Number(timestamp), message });
    return this.answer(request);
  }

  messages(type?: string): Message[] {
    return this.received
      .map(({ message }) => message)
      .filter((one) => type === undefined || one.type === type);
  }
}

let receiver: Receiver;
let fetching: MockInstance;
beforeEach(() => {
  receiver = new Receiver();
  fetching = vi.spyOn(globalThis, "fetch").mockImplementation((input, init) => receiver.fetch(input, init));
});

afterEach(() => {
  fetching.mockRestore();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

async function adminOf(workspace: string) {
  const bearer = await token({ workspace, scopes: ADMIN });
  const path = `/api/workspaces/${workspace}/webhooks`;
  return {
    bearer,
    path,
    list: async () => ((await (await get(path, bearer)).json()) as { webhooks: WebhookInfo[] }).webhooks,
    audit: async (kind: string) => {
      const page = await get(`/api/audit?limit=1000&kind=${kind}`, bearer);
      return ((await page.json()) as { entries: Json[] }).entries;
    },
  };
}

async function make(workspace: string, order: object = {}): Promise<Made> {
  const { path, bearer } = await adminOf(workspace);
  const url = `https://receiver.test/${crypto.randomUUID()}?key=sesame`;
  const response = await send("POST", path, bearer, { url, ...order });
  expect(response.status).toBe(201);
  const made = (await response.json()) as Made;
  receiver.secrets.set(url, made.secret);
  return made;
}

const workspaceStub = (workspace: string) => env.WORKSPACE_STATE_DO.getByName(`acme/${workspace}`);
const newName = () => `w-${crypto.randomUUID()}`;

/** Lets the time come for a deadline of an object. */
async function due<O extends AcpSession | WorkspaceState>(
  stub: DurableObjectStub<O>,
  name: string,
): Promise<void> {
  await runInDurableObject(stub, async (instance, { storage }) => {
    storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = ?", name);
    await instance.alarm();
  });
}

const dueOf = (workspace: string) => due(workspaceStub(workspace), "webhooks");

/** All waiting messages of a workspace are due now. */
async function retry(workspace: string): Promise<void> {
  await runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
    storage.sql.exec("UPDATE delivery SET next = 0");
  });
  await dueOf(workspace);
}

async function turn({ client, agent, sessionId }: Opened): Promise<void> {
  const id = client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] });
  agent.answer(await agent.line(), { stopReason: "end_turn" });
  await client.until(id);
}

/** The agent asks, in a turn; returns the request's id as clients know it. */
async function ask({ client, agent, sessionId }: Opened): Promise<string> {
  client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "ask" }] });
  await agent.line();
  const toolCall = { toolCallId: "t1", title: "Write a file", kind: "edit" };
  const options = [{ optionId: "yes", name: "Allow", kind: "allow_once" }];
  const params = { sessionId: "agent-session", toolCall, options };
  agent.items(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params }));
  for (;;) {
    const message = await client.takeJson();
    if (message.method === "session/request_permission") return message.id as string;
  }
}

const received = (count: number) => vi.waitUntil(() => receiver.received.length >= count, 10_000);

/** Whatever a session keeps for webhooks. */
async function kept(sessionId: string) {
  return runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    const tables = storage.sql
      .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map(({ name }) => name);
    return {
      wanted: storage.kv.get("notices"),
      rows: tables.includes("notice") ? storage.sql.exec("SELECT * FROM notice").toArray() : undefined,
      tables: tables.filter((name) => !name.startsWith("_cf_") && !name.startsWith("sqlite_")),
      deadlines: tables.includes("deadline")
        ? storage.sql.exec("SELECT * FROM deadline WHERE name = 'notices'").toArray().length
        : 0,
    };
  });
}

describe("a webhook", () => {
  it("is made with a secret that is shown once, and stored in no clear text", async () => {
    const logs = [vi.spyOn(console, "log"), vi.spyOn(console, "warn"), vi.spyOn(console, "error")];
    const workspace = newName();
    const made = await make(workspace);
    expect(made).toEqual({
      id: expect.stringMatching(/^wh_[0-9A-Z]{26}$/),
      url: expect.stringMatching(/^https:\/\/receiver\.test\/[0-9a-f-]{36}$/),
      events: ["permission.pending", "turn.ended", "agent.failed"],
      links: false,
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
      waiting: 0,
      lastDelivery: null,
      failingSince: null,
      dropped: 0,
      secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/),
    });
    const { secret, ...info } = made;
    const { path, bearer, list, audit } = await adminOf(workspace);
    expect(await list()).toEqual([info]);
    const stored = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      JSON.stringify(storage.sql.exec("SELECT * FROM webhook").toArray()),
    );
    expect(stored).toContain(made.id);
    const hidden = [secret, secret.slice("whsec_".length), "sesame"];
    expect(stored).not.toContain(hidden[1]);
    receiver.answer = () => Promise.reject(new Error(`no way to ${made.url}?key=sesame`));
    expect((await get(`${path}/${made.id}/test`, bearer, "POST")).status).toBe(202);
    await vi.waitUntil(async () => (await list())[0]?.failingSince !== null);
    const [entry] = (await audit("webhook.made")).filter((one) => one.workspace === workspace);
    expect(entry).toMatchObject({
      subject: "someone",
      detail: { webhook: made.id, to: "https://receiver.test" },
    });
    const shown = JSON.stringify([await list(), entry, logs.map(({ mock }) => mock.calls)]);
    for (const text of hidden) expect(shown).not.toContain(text);
  });

  it.each([
    [{ url: "http://receiver.test/" }],
    [{ url: "https://user:password@receiver.test/" }],
    [{ url: "https://user@receiver.test/" }],
    [{ url: "ftp://receiver.test/" }],
    [{ url: "receiver.test" }],
    [{ url: "not an address" }],
    [{ url: `https://receiver.test/${"x".repeat(LIMITS.webhookUrlChars)}` }],
    [{ url: 7 }],
    [{}],
    [null],
    [{ url: "https://receiver.test/", events: [] }],
    [{ url: "https://receiver.test/", events: ["turn.started"] }],
    [{ url: "https://receiver.test/", links: "yes" }],
    [{ url: "https://receiver.test/", secret: "mine" }],
  ])("as %j is refused", async (order) => {
    const { path, bearer, list } = await adminOf(newName());
    expect((await send("POST", path, bearer, order)).status).toBe(400);
    expect(await list()).toEqual([]);
  });

  it.each(["http://127.0.0.1:7000/hook", "http://localhost:7000/hook", "https://receiver.test"])(
    "may be at %s",
    async (url) => {
      const { path, bearer } = await adminOf(newName());
      const order = { url, events: ["turn.ended", "turn.ended"], links: true };
      const made = await send("POST", path, bearer, order);
      expect(await made.json()).toMatchObject({ events: ["turn.ended"], links: true });
    },
  );

  it("is one of a few", async () => {
    setLimits({ webhooksPerWorkspace: 2 });
    const workspace = newName();
    const [first] = [await make(workspace), await make(workspace)];
    const { path, bearer } = await adminOf(workspace);
    const order = { url: "https://receiver.test/" };
    expect((await send("POST", path, bearer, order)).status).toBe(409);
    expect((await get(`${path}/${first?.id}`, bearer, "DELETE")).status).toBe(204);
    expect((await send("POST", path, bearer, order)).status).toBe(201);
  });

  it("cannot be made where no secret can be kept", async () => {
    const stub = workspaceStub(newName());
    const made = await runInDurableObject(stub, (_, state) =>
      new Webhooks(
        state,
        { ...env, SECRETS_KEY: "" },
        { set() {}, clear() {} },
        { identity: () => undefined, wantedChanged() {} },
      ).make({ url: "https://receiver.test/", events: ["turn.ended"], links: false, origin: "" }),
    );
    expect(made).toBe("no key");
  });

  it("is its workspace's, and unknown to all others", async () => {
    const [here, there] = [newName(), newName()];
    const made = await make(here);
    const other = await adminOf(there);
    expect(await other.list()).toEqual([]);
    expect((await get(`${other.path}/${made.id}`, other.bearer, "DELETE")).status).toBe(404);
    expect((await get(`${other.path}/${made.id}/test`, other.bearer, "POST")).status).toBe(404);
    const mine = await adminOf(here);
    expect((await get(mine.path, other.bearer)).status).toBe(404);
    expect((await get(`${mine.path}/${made.id}`, other.bearer, "DELETE")).status).toBe(404);
    expect((await mine.list()).map(({ id }) => id)).toEqual([made.id]);
  });

  it("is deleted with what waits for it, and its links with it", async () => {
    const workspace = newName();
    const made = await make(workspace);
    const { path, bearer, list, audit } = await adminOf(workspace);
    receiver.answer = () => new Response(null, { status: 500 });
    await get(`${path}/${made.id}/test`, bearer, "POST");
    await vi.waitUntil(async () => (await list())[0]?.failingSince !== null);
    expect(await workspaceStub(workspace).hasWebhook(made.id)).toBe(true);
    expect((await get(`${path}/${made.id}`, bearer, "DELETE")).status).toBe(204);
    expect(await workspaceStub(workspace).hasWebhook(made.id)).toBe(false);
    expect((await get(`${path}/${made.id}`, bearer, "DELETE")).status).toBe(404);
    await dueOf(workspace);
    const left = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      storage.sql.exec("SELECT 1 FROM delivery").toArray(),
    );
    expect(left).toEqual([]);
    expect(receiver.requests).toHaveLength(1);
    const entries = (await audit("webhook.deleted")).filter((one) => one.workspace === workspace);
    expect(entries).toMatchObject([{ subject: "someone", detail: { webhook: made.id } }]);
  });
});

describe("a session", () => {
  it("tells of what its workspace's webhooks want to hear of", async () => {
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

  it("of a workspace without webhooks writes nothing and asks nobody", async () => {
    const notify = vi.spyOn(WorkspaceState.prototype, "notify");
    const opened = await openSession();
    await turn(opened);
    await ask(opened);
    opened.agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await opened.agent.durable();
    expect(notify).not.toHaveBeenCalled();
    expect(await kept(opened.sessionId)).toMatchObject({ wanted: undefined, rows: undefined, deadlines: 0 });
  });

  it("that has a process hears of a new webhook, and of its removal", async () => {
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

  it("that gets its process later hears of it then", async () => {
    const workspace = newName();
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

  it("stops when it learns that nobody listens any more", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    const made = await make(workspace, { events: ["turn.ended"] });
    // As if it had had no process when the webhook went.
    await runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
      storage.sql.exec("DELETE FROM webhook WHERE id = ?", made.id);
    });
    await turn(opened);
    await vi.waitUntil(async () => (await kept(sessionId)).wanted === undefined);
    expect(receiver.requests).toEqual([]);
  });

  it("tells later what its workspace could not be told", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    await make(workspace);
    vi.spyOn(console, "error").mockImplementation(() => {});
    const notify = vi.spyOn(WorkspaceState.prototype, "notify").mockImplementationOnce(() => {
      throw new Error("out of reach");
    });
    await turn(opened);
    await vi.waitUntil(() => notify.mock.calls.length === 1);
    expect(await kept(sessionId)).toMatchObject({ rows: [{ type: "turn.ended" }], deadlines: 1 });
    await due(sessionStub(sessionId), "notices");
    await received(1);
    expect(await kept(sessionId)).toMatchObject({ rows: [], deadlines: 0 });
  });

  it("that crashes before it could tell does so afterwards, and knows what is wanted", async () => {
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
    await due(sessionStub(sessionId), "notices");
    await received(1);
    await agent.reconnect();
    const client = await Client.open(workspace);
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    await turn({ ...opened, client });
    await received(2);
    expect(receiver.messages().map(({ type }) => type)).toEqual(["turn.ended", "turn.ended"]);
  });

  it("can be evicted once it has told, and then tells again", async () => {
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

  it("that tells something twice is heard once", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    await make(workspace);
    vi.spyOn(console, "error").mockImplementation(() => {});
    const { notify } = WorkspaceState.prototype;
    let calls = 0;
    vi.spyOn(WorkspaceState.prototype, "notify").mockImplementation(function (this: WorkspaceState, notices) {
      const wanted = notify.call(this, notices);
      calls += 1;
      if (calls === 1) throw new Error("the answer is lost");
      return wanted;
    });
    await turn(opened);
    await received(1);
    await due(sessionStub(sessionId), "notices");
    expect(calls).toBe(2);
    await turn(opened);
    await received(2);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(2);
    expect(receiver.received).toHaveLength(2);
  });

  it("keeps the newest of too many, and says how many there were", async () => {
    setLimits({ noticesPerSession: 2 });
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
    await due(sessionStub(sessionId), "notices");
    await received(2);
    expect(await (await adminOf(workspace)).list()).toMatchObject([{ dropped: 3 }]);
  });

  it.each(["is out of reach", "answers"])(
    "that is deleted leaves nothing, also when its workspace %s after that",
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

  it("that is a copy of another tells nothing of what happened there", async () => {
    const opened = await openSession();
    const { workspace, client, sessionId } = opened;
    await make(workspace);
    await turn(opened);
    await ask(opened);
    await received(2);
    const { response } = await client.request("session/fork", { sessionId, cwd: "/", mcpServers: [] });
    const fork = (response.result as { sessionId: string }).sessionId;
    expect(await kept(fork)).toMatchObject({ wanted: undefined, rows: undefined });
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

describe("a message", () => {
  async function withPing(order: object = {}) {
    const workspace = newName();
    const made = await make(workspace, order);
    const admin = await adminOf(workspace);
    const ping = async () => {
      expect((await get(`${admin.path}/${made.id}/test`, admin.bearer, "POST")).status).toBe(202);
    };
    const info = async () => (await admin.list())[0] as WebhookInfo;
    return { workspace, made, ping, info, ...admin };
  }

  it("is a ping when somebody asks for one", async () => {
    const { workspace, made, ping, info } = await withPing({ events: ["agent.failed"] });
    await ping();
    await received(1);
    expect(receiver.messages()).toMatchObject([{ type: "ping", data: { workspace, webhook: made.id } }]);
    await vi.waitUntil(async () => (await info()).waiting === 0);
    expect(await info()).toMatchObject({ lastDelivery: { status: 204 }, failingSince: null, dropped: 0 });
  });

  it.each([
    ["500", () => new Response("x".repeat(100_000), { status: 500 })],
    ["302", () => new Response(null, { status: 302, headers: { Location: "https://elsewhere.test/" } })],
    [
      "no answer",
      () => {
        throw new Error("refused");
      },
    ],
  ] satisfies [string, () => Response][])(
    "that got %s is tried again, signed anew",
    async (_what, answer) => {
      vi.useFakeTimers({ toFake: ["Date"] });
      const { workspace, ping, info } = await withPing();
      receiver.answer = answer;
      await ping();
      await vi.waitUntil(async () => (await info()).failingSince !== null);
      expect(await info()).toMatchObject({ waiting: 1, dropped: 0 });
      const at = await runInDurableObject(workspaceStub(workspace), (_, { storage }) => storage.getAlarm());
      expect(at).not.toBeNull();
      // Not before its time.
      await dueOf(workspace);
      expect(receiver.requests).toHaveLength(1);
      vi.setSystemTime(Date.now() + 60_000);
      receiver.answer = () => new Response("thanks");
      await dueOf(workspace);
      await received(2);
      await vi.waitUntil(async () => (await info()).waiting === 0);
      const [first, second] = receiver.received;
      expect(second?.id).toBe(first?.id);
      expect(second?.timestamp).toBeGreaterThan(first?.timestamp as number);
      expect(second?.message).toEqual(first?.message);
      expect(await info()).toMatchObject({ lastDelivery: { status: 200 }, failingSince: null });
    },
  );

  it("waits for as long as its receiver asks", async () => {
    const { workspace, ping } = await withPing();
    receiver.answer = () => new Response(null, { status: 429, headers: { "Retry-After": "1800" } });
    const since = Date.now();
    await ping();
    const next = async () =>
      runInDurableObject(
        workspaceStub(workspace),
        (_, { storage }) => storage.sql.exec<{ next: number }>("SELECT next FROM delivery").one().next,
      );
    await vi.waitUntil(async () => (await next()) > since + 60_000);
    expect((await next()) - since).toBeGreaterThanOrEqual(1_800_000);
  });

  it("is given up in the end, of which the audit has one line until something arrives", async () => {
    setLimits({ webhookRetryMs: 0.001 });
    const { workspace, made, ping, info, audit } = await withPing();
    const failures = async () =>
      (await audit("webhook.failed")).filter((entry) => entry.workspace === workspace);
    receiver.answer = () => new Response(null, { status: 500 });
    const giveUp = async (dropped: number) => {
      await ping();
      await vi.waitUntil(async () => {
        await retry(workspace);
        return (await info()).dropped === dropped;
      }, 10_000);
    };
    await giveUp(1);
    expect(receiver.requests).toHaveLength(8);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(1);
    await giveUp(2);
    await vi.waitUntil(async () => (await failures()).length > 0);
    expect(await failures()).toMatchObject([
      { subject: "gateway", detail: { webhook: made.id, message: receiver.received[0]?.id, status: 500 } },
    ]);
    receiver.answer = () => new Response();
    await ping();
    await vi.waitUntil(async () => (await info()).failingSince === null);
    receiver.answer = () => new Response(null, { status: 500 });
    await giveUp(3);
    await vi.waitUntil(async () => (await failures()).length === 2);
  });

  it("is one of so many that may wait: the oldest goes", async () => {
    setLimits({ webhookQueue: 2 });
    const { workspace, ping, info } = await withPing();
    receiver.answer = () => new Response(null, { status: 503 });
    for (let n = 0; n < 5; n += 1) await ping();
    await vi.waitUntil(async () => (await info()).failingSince !== null);
    expect(await info()).toMatchObject({ waiting: 2, dropped: 3 });
    const first = receiver.received[0]?.id;
    receiver.answer = () => new Response();
    receiver.received.length = 0;
    await retry(workspace);
    await received(2);
    expect(receiver.received.map(({ id }) => id)).not.toContain(first);
  });

  it("that is answered with 410 Gone is the last", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    const made = await make(workspace);
    const { list, audit } = await adminOf(workspace);
    receiver.answer = () => new Response(null, { status: 410 });
    await turn(opened);
    await vi.waitUntil(async () => (await list()).length === 0);
    await vi.waitUntil(async () => (await kept(sessionId)).wanted === undefined);
    await turn(opened);
    expect(receiver.requests).toHaveLength(1);
    const entries = (await audit("webhook.deleted")).filter((entry) => entry.workspace === workspace);
    expect(entries).toMatchObject([{ subject: "gateway", detail: { webhook: made.id, reason: "410 Gone" } }]);
  });

  it("is sent again if the object did not live to hear the answer", async () => {
    const { workspace, ping, info } = await withPing();
    receiver.answer = () => new Promise(() => {});
    await ping();
    await received(1);
    const stub = workspaceStub(workspace);
    await expect(runInDurableObject(stub, (_, state) => state.abort("crash"))).rejects.toThrow();
    receiver.answer = () => new Response();
    await dueOf(workspace);
    await received(2);
    expect(receiver.received[1]?.id).toBe(receiver.received[0]?.id);
    await vi.waitUntil(async () => (await info()).waiting === 0);
  });

  it("for one that hangs keeps nobody else waiting", async () => {
    const workspace = newName();
    const { path, bearer } = await adminOf(workspace);
    const hooks: Made[] = [];
    for (let n = 0; n < LIMITS.webhooksAtOnce + 2; n += 1) hooks.push(await make(workspace));
    const last = hooks.at(-1) as Made;
    const ping = ({ id }: Made) => get(`${path}/${id}/test`, bearer, "POST");
    // All but the last are known to fail.
    receiver.answer = () => new Response(null, { status: 500 });
    for (const hook of hooks.slice(0, -1)) await ping(hook);
    await received(hooks.length - 1);
    await vi.waitUntil(async () => {
      const all = await (await adminOf(workspace)).list();
      return all.filter(({ failingSince }) => failingSince !== null).length === hooks.length - 1;
    });
    receiver.received.length = 0;
    receiver.answer = ({ url }) =>
      url.startsWith(last.url) ? new Response() : new Promise<Response>(() => {});
    await retry(workspace);
    await ping(last);
    await vi.waitUntil(() => receiver.received.some(({ url }) => url.startsWith(last.url)));
    expect(receiver.received.length).toBeLessThanOrEqual(LIMITS.webhooksAtOnce / 2 + 1);
  });
});

describe("links that answer", () => {
  it("come with permission requests to webhooks that want them, fresh each time, and are stored nowhere", async () => {
    const opened = await openSession();
    const { workspace, sessionId } = opened;
    const linked = await make(workspace, { links: true });
    const plain = await make(workspace);
    receiver.answer = () => new Response(null, { status: 500 });
    const permission = await ask(opened);
    await received(2);
    await vi.waitUntil(async () =>
      (await (await adminOf(workspace)).list()).every((one) => one.failingSince),
    );
    const stored = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      JSON.stringify(storage.sql.exec("SELECT * FROM delivery").toArray()),
    );
    expect(stored).not.toContain("/answer");
    await retry(workspace);
    await received(4);
    const urls = (hook: Made) =>
      receiver.received
        .filter(({ url }) => url.startsWith(hook.url))
        .map(({ message }) => (message.data.permission as { options: { url?: string }[] }).options[0]?.url);
    expect(urls(plain)).toEqual([undefined, undefined]);
    const [first, second] = urls(linked);
    expect(first).toMatch(/^https:\/\/edge\.test\/answer\?link=/);
    expect(second).not.toBe(first);
    const link = new URL(second as string).searchParams.get("link") as string;
    expect(await readAnswerLink(env, link)).toEqual({
      tenant: "acme",
      workspace,
      session: sessionId,
      seq: Number(permission.split(":")[1]),
      optionId: "yes",
      by: `webhook:${linked.id}`,
      webhook: linked.id,
      id: expect.any(String),
      expires: expect.any(Number),
    });
  });
});
