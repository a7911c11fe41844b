/** Webhooks from a real gateway to a real receiver, which fails, hangs, vanishes or answers 410 Gone. */
import { randomUUID } from "node:crypto";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client, readLog } from "./client.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { type Delivery, Receiver } from "./webhook-receiver.ts";

/** Signatures have whole seconds, so these pauses give a second attempt another time. */
const LIMITS = { webhookRetryMs: 1100, webhookTimeoutMs: 2500 };

let gateway: Gateway;
let client: Client;
let receiver: Receiver;
beforeAll(async () => {
  gateway = await startGateway({ env: { ACP_EDGE_LIMITS: JSON.stringify(LIMITS) } });
  client = await Client.connect(gateway);
  receiver = await Receiver.start();
});
afterAll(async () => {
  await client?.close();
  await gateway?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
});

const newPath = () => `/${randomUUID()}`;
const list = async () => {
  const response = await gateway.api(`/api/workspaces/${gateway.workspace}/webhooks`);
  return ((await response.json()) as { webhooks: { id: string; waiting: number; failingSince: unknown }[] })
    .webhooks;
};
const remove = (id: string) =>
  gateway.api(`/api/workspaces/${gateway.workspace}/webhooks/${id}`, { method: "DELETE" });
const ofSession =
  (sessionId: string, path: string, type?: string) =>
  ({ path: at, message }: Delivery) =>
    at === path && message.data.sessionId === sessionId && (type === undefined || message.type === type);

describe("a webhook receiver", () => {
  test("gets permission requests, turn ends and agent failures as the log has them", async () => {
    const path = newPath();
    const { id } = await receiver.hook(gateway, path);
    const sessionId = await client.newSession();
    client.onPermission = () => new Promise(() => {});
    const turn = client.prompt(sessionId, "/title A tidy house\n/permission Sweep the floor\n/crash 3");
    const [pending] = await receiver.receives(ofSession(sessionId, path, "permission.pending"));
    const { workspace } = gateway;
    const about = { workspace, sessionId, sessionTitle: "A tidy house" };
    expect(pending.message.data).toMatchObject({
      ...about,
      permission: {
        title: "Sweep the floor",
        kind: "delete",
        options: [
          { optionId: "allow", name: "Allow", kind: "allow_once" },
          ...[{ optionId: "allow-always" }, { optionId: "reject" }, { optionId: "reject-always" }],
        ],
      },
    });
    // The id is enough to answer the request.
    const { permission } = pending.message.data as { permission: { id: string } };
    const answer = { method: "POST", body: '{"optionId":"allow"}' };
    expect((await gateway.api(`/api/permissions/${permission.id}`, answer)).status).toBe(200);
    await expect(turn).rejects.toMatchObject({ code: -32603 });
    const [failed] = await receiver.receives(ofSession(sessionId, path, "agent.failed"));
    const message = "The agent process ended: exit code 3";
    const failure = { ...about, agent: "demo", detailCode: "agent_exited", message };
    expect(failed.message.data).toEqual(failure);
    const [ended] = await receiver.receives(ofSession(sessionId, path, "turn.ended"));
    const turnId = (await readLog(gateway, sessionId)).find(({ kind }) => kind === "turn.failed")?.turnId;
    expect(ended.message.data).toEqual({
      ...{ ...about, turnId, outcome: "failed" },
      error: { code: -32603, message },
    });
    expect((await client.prompt(sessionId, "/echo hello")).stopReason).toBe("end_turn");
    const [, next] = await receiver.receives(ofSession(sessionId, path, "turn.ended"), 2);
    expect(next?.message.data).toMatchObject({ outcome: "completed", stopReason: "end_turn" });
    const mine = receiver.deliveries.filter(({ path: at }) => at === path);
    expect(mine.map(({ message: { type } }) => type).sort()).toEqual([
      ...["agent.failed", "permission.pending", "turn.ended", "turn.ended"],
    ]);
    expect(new Set(mine.map((one) => one.id)).size).toBe(4);
    expect(receiver.refused).toEqual([]);
    await remove(id);
  });

  test("gets no message about decisions of the workspace's policy", async () => {
    const path = newPath();
    const { id } = await receiver.hook(gateway, path);
    const settings = (policy: object) =>
      gateway.api(`/api/workspaces/${gateway.workspace}`, {
        method: "PUT",
        body: JSON.stringify({ policy }),
      });
    await settings({ default: "ask", byKind: { delete: "allow" } });
    const sessionId = await client.newSession();
    await client.prompt(sessionId, "/permission");
    await receiver.receives(ofSession(sessionId, path, "turn.ended"));
    expect(receiver.deliveries.filter(ofSession(sessionId, path, "permission.pending"))).toEqual([]);
    await settings({ default: "ask" });
    await remove(id);
  });

  test("gets a message again, signed anew, until it accepts it", async () => {
    const path = newPath();
    const { id } = await receiver.hook(gateway, path, { events: ["turn.ended"] });
    const answers: ((response: { destroy(): void }) => number | undefined)[] = [
      () => 500,
      (response) => void response.destroy(),
    ];
    receiver.answer = ({ path: at }, response) =>
      at === path ? (answers.shift() ?? (() => 200))(response) : 204;
    const sessionId = await client.newSession();
    await client.prompt(sessionId, "/echo hello");
    const all = await receiver.receives(ofSession(sessionId, path), 3);
    await eventually(async () =>
      (await list()).every(({ waiting, failingSince }) => !waiting && !failingSince),
    );
    expect(all).toHaveLength(3);
    expect(new Set(all.map((one) => one.id)).size).toBe(1);
    expect(new Set(all.map(({ raw }) => raw)).size).toBe(1);
    const times = all.map(({ timestamp }) => timestamp);
    expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
    expect(new Set(all.map(({ signature }) => signature)).size).toBe(3);
    expect(receiver.deliveries.filter(({ path: at }) => at === path)).toHaveLength(3);
    receiver.answer = () => 204;
    await remove(id);
  });

  test("delays no other receiver by hanging", async () => {
    const [slow, quick] = [newPath(), newPath()];
    const hooks = [await receiver.hook(gateway, slow), await receiver.hook(gateway, quick)];
    let free = () => {};
    receiver.answer = ({ path: at }, response) => {
      if (at === quick) return 204;
      free = () => response.destroy();
      return undefined;
    };
    const sessionId = await client.newSession();
    const hung = receiver.receives(ofSession(sessionId, slow));
    await client.prompt(sessionId, "/echo one");
    await hung;
    await client.prompt(sessionId, "/echo two");
    await client.prompt(sessionId, "/echo three");
    await receiver.receives(ofSession(sessionId, quick), 3);
    receiver.answer = () => 204;
    free();
    await receiver.receives(ofSession(sessionId, slow), 4);
    for (const { id } of hooks) await remove(id);
  });

  test("gets nothing more after it answers 410 Gone, and its webhook is deleted", async () => {
    const path = newPath();
    const { id } = await receiver.hook(gateway, path);
    receiver.answer = () => 410;
    const sessionId = await client.newSession();
    await client.prompt(sessionId, "/echo hello");
    await eventually(async () => !(await list()).some((one) => one.id === id));
    await client.prompt(sessionId, "/echo hello");
    expect(receiver.deliveries.filter(ofSession(sessionId, path))).toHaveLength(1);
    const audit = await (await gateway.api("/api/audit?limit=1000&kind=webhook.deleted")).text();
    expect(audit).toContain("410 Gone");
    receiver.answer = () => 204;
  });

  test("can tell a body that was changed on the way or belongs to another message", async () => {
    const path = newPath();
    const hook = await receiver.hook(gateway, path);
    await gateway.api(`/api/workspaces/${gateway.workspace}/webhooks/${hook.id}/test`, { method: "POST" });
    const [{ id, timestamp, signature, raw }] = await receiver.receives(({ path: at }) => at === path);
    const headers = { "webhook-id": id, "webhook-timestamp": `${timestamp}`, "webhook-signature": signature };
    const verify = (body: string, more: object = {}, secret = hook.secret) =>
      new Webhook(secret).verify(body, { ...headers, ...more });
    expect(verify(raw)).toMatchObject({ type: "ping", data: { webhook: hook.id } });
    const other = `whsec_${Buffer.from(randomUUID()).toString("base64")}`;
    for (const change of [
      () => verify(raw.replace("ping", "pong")),
      () => verify(raw, { "webhook-id": `${id}0` }),
      () => verify(raw, { "webhook-timestamp": String(timestamp - 1) }),
      () => verify(raw, { "webhook-timestamp": String(timestamp - 600) }),
      () => verify(raw, {}, other),
    ])
      expect(change).toThrow(WebhookVerificationError);
    await remove(hook.id);
  });

  test("gets a link for each option, which answers as long as the webhook exists", async () => {
    const path = newPath();
    const { id } = await receiver.hook(gateway, path, { links: true });
    const sessionId = await client.newSession();
    const asked = async (count: number) => {
      const all = await receiver.receives(ofSession(sessionId, path, "permission.pending"), count);
      const { message } = all[count - 1] as (typeof all)[0];
      const { options } = (message.data as Pending).permission;
      expect(options).toHaveLength(4);
      for (const { url } of options) expect(url.startsWith(`${gateway.url}/answer?link=`)).toBe(true);
      return options.find(({ optionId }) => optionId === "reject")?.url as string;
    };
    const post = async (url: string) => (await fetch(url, { method: "POST" })).status;
    const turn = client.prompt(sessionId, "/permission");
    const first = await asked(1);
    expect(await post(first)).toBe(200);
    await turn;
    await client.hears(sessionId, "Permission selected: reject");
    expect(await post(first)).toBe(410);
    const next = client.prompt(sessionId, "/permission");
    const second = await asked(2);
    await remove(id);
    expect(await post(second)).toBe(404);
    await client.cancel(sessionId);
    await next;
  });
});

type Pending = { permission: { options: { optionId: string; url: string }[] } };

test("a message from before kill -9 of the gateway is delivered afterwards", async () => {
  const path = newPath();
  await receiver.hook(gateway, path, { events: ["turn.ended"] });
  // The receiver has the message, and the gateway dies before the response.
  receiver.answer = () => undefined;
  const sessionId = await client.newSession();
  const turn = client.prompt(sessionId, "/echo hello");
  const [first] = await receiver.receives(ofSession(sessionId, path));
  await turn;
  gateway.killWorkerd();
  await client.closed;
  receiver.answer = () => 204;
  const [, second] = await receiver.receives(ofSession(sessionId, path), 2);
  expect(second?.id).toBe(first.id);
  expect(second?.raw).toBe(first.raw);
  await eventually(async () => (await list()).every(({ waiting }) => waiting === 0));
  client = await Client.connect(gateway);
  await client.load(sessionId);
  await client.prompt(sessionId, "/echo again");
  await receiver.receives(({ path: at, id }) => at === path && id !== first.id);
});
