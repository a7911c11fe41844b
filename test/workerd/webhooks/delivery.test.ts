import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { readAnswerLink } from "../../../src/auth/answer-link.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import type { WebhookInfo } from "../../../src/protocol/rest.ts";
import { get, openSession, workspaceName, workspaceStub } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import {
  adminOf,
  ask,
  dueOf,
  kept,
  type Made,
  make,
  received,
  receiver,
  receiveWebhooks,
  turn,
} from "./fixtures.ts";

receiveWebhooks();

/** Makes all waiting messages of a workspace due now. */
async function retry(workspace: string): Promise<void> {
  await runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
    storage.sql.exec("UPDATE delivery SET next = 0");
  });
  await dueOf(workspace);
}

describe("a webhook message", () => {
  async function withPing(order: object = {}) {
    const workspace = workspaceName();
    const made = await make(workspace, order);
    const admin = await adminOf(workspace);
    const ping = async () => {
      expect((await get(`${admin.path}/${made.id}/test`, admin.bearer, "POST")).status).toBe(202);
    };
    const info = async () => (await admin.list())[0] as WebhookInfo;
    return { workspace, made, ping, info, ...admin };
  }

  test("is a ping when a caller asks for one", async () => {
    const { workspace, made, ping, info } = await withPing({ events: ["agent.failed"] });
    await ping();
    await received(1);
    expect(receiver.messages()).toMatchObject([{ type: "ping", data: { workspace, webhook: made.id } }]);
    await vi.waitUntil(async () => (await info()).waiting === 0);
    expect(await info()).toMatchObject({ lastDelivery: { status: 204 }, failingSince: null, dropped: 0 });
  });

  test.each([
    ["500", () => new Response("x".repeat(100_000), { status: 500 })],
    ["302", () => new Response(null, { status: 302, headers: { Location: "https://elsewhere.test/" } })],
    [
      "no answer",
      () => {
        throw new Error("refused");
      },
    ],
  ] satisfies [string, () => Response][])("is sent again after %s, signed anew", async (_what, answer) => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { workspace, ping, info } = await withPing();
    receiver.answer = answer;
    await ping();
    await vi.waitUntil(async () => (await info()).failingSince !== null);
    expect(await info()).toMatchObject({ waiting: 1, dropped: 0 });
    const at = await runInDurableObject(workspaceStub(workspace), (_, { storage }) => storage.getAlarm());
    expect(at).not.toBeNull();
    // No message is sent before its time.
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
  });

  test("waits for as long as its receiver asks", async () => {
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

  test("is given up in the end, with one audit entry until a message arrives again", async () => {
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

  test("pushes the oldest message out of a full queue", async () => {
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

  test("is the last one when it is answered with 410 Gone", async () => {
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

  test("is sent again if the object died before the answer", async () => {
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

  test("delays no other receiver when its receiver hangs", async () => {
    const workspace = workspaceName();
    const { path, bearer } = await adminOf(workspace);
    const hooks: Made[] = [];
    for (let n = 0; n < DEFAULT_LIMITS.webhooksAtOnce + 2; n += 1) hooks.push(await make(workspace));
    const last = hooks.at(-1) as Made;
    const ping = ({ id }: Made) => get(`${path}/${id}/test`, bearer, "POST");
    // All attempts but the last are known to fail.
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
    expect(receiver.received.length).toBeLessThanOrEqual(DEFAULT_LIMITS.webhooksAtOnce / 2 + 1);
  });
});

describe("the answer links of a webhook", () => {
  test("come with permission requests to webhooks that want them, are fresh each time and stored nowhere", async () => {
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
      ok: true,
      value: {
        tenant: "acme",
        workspace,
        session: sessionId,
        seq: Number(permission.split(":")[1]),
        optionId: "yes",
        by: `webhook:${linked.id}`,
        maker: { subject: "someone", jti: expect.stringMatching(/^sha256:/), workspace },
        webhook: linked.id,
        id: expect.any(String),
        expires: expect.any(Number),
      },
    });
  });
});
