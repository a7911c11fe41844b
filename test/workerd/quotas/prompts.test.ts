import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { TenantState } from "../../../src/tenant/tenant-state.ts";
import { eventsText, holdUp, openSession, prompt, subjectStub } from "../fixtures.ts";
import { setLimits, setLimitsOf } from "../limits.ts";
import { mint } from "../tokens.ts";
import {
  asking,
  codeOf,
  given,
  HOUR,
  held,
  NOWHERE,
  open,
  prompts,
  REFUSED,
  startOfHour,
  user,
} from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
});

describe("the prompts of an hour", () => {
  test("are exactly as many as allowed on one connection, and the next one is told when to retry", async () => {
    setLimits({ promptsPerHour: 250 });
    const { client } = await open(await user());
    expect(await prompts(client, 260)).toBe(250);
    const { response } = await client.request("session/prompt", prompt(NOWHERE));
    expect(response.error).toMatchObject({
      code: REFUSED,
      message: "One user may send 250 prompts an hour",
      data: { retryAfterMs: expect.any(Number) },
    });
    expect((await client.request("session/list", {})).response).toHaveProperty("result");
  });

  test("are never more than allowed on several connections at once, and hardly fewer", async () => {
    setLimits({ promptsPerHour: 500 });
    const someone = await user();
    const clients = await Promise.all([1, 2, 3, 4].map(async () => (await open(someone)).client));
    const taken = await Promise.all(clients.map((client) => prompts(client, 160)));
    const all = taken.reduce((sum, n) => sum + n, 0);
    expect(all).toBeLessThanOrEqual(500);
    expect(all).toBeGreaterThan(490);
    expect(await given(someone, "prompts")).toBe(500);
  });

  test("reach no session when they are refused", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const someone = await user({ tenant: "acme", sub: crypto.randomUUID(), workspaces: [workspace] });
    await setLimitsOf("acme", { promptsPerHour: 1 });
    const { client: other } = await open(someone);
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const first = other.call("session/prompt", prompt(sessionId, "first"));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await other.until(first)).response.result).toEqual({ stopReason: "end_turn" });
    const { response } = await other.request("session/prompt", prompt(sessionId, "second"));
    expect(codeOf(response)).toBe(REFUSED);
    expect(await eventsText(workspace, sessionId)).not.toContain("second");
    // Other users are not affected.
    await setLimitsOf("acme", { promptsPerHour: 10_000 });
    const turn = client.call("session/prompt", prompt(sessionId, "mine"));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "end_turn" });
  });

  test("stay counted when the connection's and the subject's objects are evicted", async () => {
    setLimits({ promptsPerHour: 500 });
    const someone = await user();
    const { client, object } = await open(someone);
    let taken = 0;
    for (let round = 0; round < 12; round += 1) {
      taken += await prompts(client, 50);
      await evictDurableObject(object);
      await evictDurableObject(someone.subjectObject);
    }
    expect(taken).toBe(500);
  });

  test("return to other connections when a connection ends without using them", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const first = await open(someone);
    expect(await prompts(first.client, 1)).toBe(1);
    expect(await given(someone, "prompts")).toBeGreaterThan(1);
    first.client.socket.close(1000);
    await expect.poll(() => given(someone, "prompts")).toBe(1);
    const { client } = await open(someone);
    expect(await prompts(client, 1010)).toBe(999);
  });

  test("are given back only once by a connection that ends while it waits for more", async () => {
    setLimits({ charsPerHour: 640_000 });
    const someone = await user();
    const { client, object } = await open(someone);
    const before = (await given(someone, "chars")) - (await held(object));
    const chars = (await held(object)) + 1000;
    const release = await holdUp(someone.subjectObject);
    client.send(asking(chars, 7));
    // The object has the message and waits for the subject's object.
    for (let turn = 0; turn < 3; turn += 1) await held(object);
    client.socket.close(1000);
    await client.closed;
    await release();
    await expect.poll(() => given(someone, "chars")).toBe(before + chars);
  });

  test("need no call to the subject's object while the allowance lasts, nor for repeated refusals", async () => {
    startOfHour();
    setLimits({ promptsPerHour: 400 });
    const someone = await user();
    const { client } = await open(someone);
    expect(await prompts(client, 1)).toBe(1);
    const release = await holdUp(someone.subjectObject);
    expect(await prompts(client, 3)).toBe(3);
    await release();
    expect(await prompts(client, 400)).toBe(396);
    const again = await holdUp(someone.subjectObject);
    expect(await prompts(client, 20)).toBe(0);
    await again();
  });

  test("start again with the next hour", async () => {
    startOfHour();
    setLimits({ promptsPerHour: 20 });
    const someone = await user();
    const { client } = await open(someone);
    expect(await prompts(client, 25)).toBe(20);
    vi.setSystemTime(Date.now() + HOUR - 2000);
    expect(await prompts(client, 1)).toBe(0);
    const { response } = await client.request("session/prompt", prompt(NOWHERE));
    const { retryAfterMs } = (response.error as { data: { retryAfterMs: number } }).data;
    vi.setSystemTime(Date.now() + retryAfterMs);
    expect(await prompts(client, 25)).toBe(20);
    expect(await given(someone, "prompts")).toBe(20);
  });

  test("are not given back in the hour after", async () => {
    startOfHour();
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const [old, other] = [await open(someone), await open(someone)];
    expect(await prompts(old.client, 1)).toBe(1);
    vi.setSystemTime(Date.now() + HOUR);
    expect(await prompts(other.client, 5)).toBe(5);
    const before = await given(someone, "prompts");
    old.client.socket.close(1000);
    await expect.poll(() => someone.subjectObject.countSockets()).toBe(1);
    expect(await given(someone, "prompts")).toBe(before);
  });

  test("belong to a user, whatever the token, and an observer's count too", async () => {
    setLimits({ promptsPerHour: 3 });
    const ann = await user();
    const bob = await user({ tenant: ann.tenant, sub: "bob" });
    const { client } = await open(ann);
    expect(await prompts(client, 4)).toBe(3);
    const renewed = await mint({ tenant: ann.tenant, sub: "ann", workspaces: ["w"], exp: 200_000 });
    const { response } = await client.request("_acp-edge/renew", { token: renewed });
    expect(response).toHaveProperty("result");
    expect(await prompts(client, 1)).toBe(0);
    expect(await prompts((await open(bob)).client, 4)).toBe(3);
    const watcher = await user({ scopes: ["session:read"] });
    const { client: watching } = await open(watcher);
    const codes: number[] = [];
    for (let n = 0; n < 4; n += 1) {
      const answer = await watching.request("session/prompt", prompt(NOWHERE));
      codes.push(codeOf(answer.response));
    }
    expect(codes).toEqual([-32003, -32003, -32003, REFUSED]);
  });
});

test("quotas that a tenant of the previous release has given stay spent in their hour", async () => {
  startOfHour();
  setLimits({ sessionsPerHour: 5 });
  const someone = await user();
  await runInDurableObject(env.TENANT_DO.getByName(someone.tenant), (instance, { storage }) => {
    (instance as unknown as Pick<TenantState, "recordAct">).recordAct({ kind: "share.made", subject: "x" });
    const hour = Math.floor(Date.now() / HOUR);
    storage.sql.exec("INSERT INTO quota VALUES ('ann', 'sessions', ?, 4)", hour);
  });
  await open(someone);
  expect(await someone.subjectObject.takeSessionQuota()).toBe(true);
  expect(await someone.subjectObject.takeSessionQuota()).toBe(false);
  // Another token of the same hour brings nothing more.
  await open({ ...someone, bearer: await mint({ tenant: someone.tenant, sub: "ann", workspaces: ["w"] }) });
  expect(await given(someone, "sessions")).toBe(5);
});

describe("a message while nobody can count", () => {
  test("is answered with an error if it is a request, and goes on if nobody can answer it", async () => {
    setLimits({ promptsPerHour: 1000 });
    const { workspace, sessionId, agent } = await openSession();
    const sub = crypto.randomUUID();
    const someone = await user({ tenant: "acme", sub, workspaces: [workspace] });
    const { client, object } = await open(someone);
    await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    const subject = subjectStub(sub);
    await runInDurableObject(subject, (_, { storage }) => {
      storage.sql.exec(
        "CREATE TRIGGER broken BEFORE INSERT ON quota BEGIN SELECT RAISE(ABORT, 'broken'); END",
      );
    });
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime(Date.now() + HOUR);
    const { response } = await client.request("_vendor/ask", { sessionId });
    expect(response.error).toEqual({
      ...{ code: -32603, message: "The quota could not be checked: try again" },
      data: { retryAfterMs: 1000 },
    });
    client.notify("_vendor/note", { sessionId, pad: "x".repeat(100) });
    expect(await agent.line()).toMatchObject({ method: "_vendor/note" });
    await runInDurableObject(
      subject,
      (_, { storage }) => storage.sql.exec("DROP TRIGGER broken") && undefined,
    );
    client.call("_vendor/ask", { sessionId, pad: "x".repeat(100) });
    expect(await agent.line()).toMatchObject({ method: "_vendor/ask" });
    // The message that nobody could count is counted with the next one.
    const spent = (await given(someone, "chars")) - (await held(object));
    expect(spent).toBeGreaterThan(200);
  });
});
