import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, describe, expect, test, vi } from "vitest";
import { eventsText, holdUp, openSession, prompt } from "../fixtures.ts";
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

  test("stay counted when the connection's and the tenant's objects are evicted", async () => {
    setLimits({ promptsPerHour: 500 });
    const someone = await user();
    const { client, object } = await open(someone);
    let taken = 0;
    for (let round = 0; round < 12; round += 1) {
      taken += await prompts(client, 50);
      await evictDurableObject(object);
      await evictDurableObject(someone.tenantObject);
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
    const release = await holdUp(someone.tenantObject);
    client.send(asking(chars, 7));
    // The object has the message and waits for the tenant.
    for (let turn = 0; turn < 3; turn += 1) await held(object);
    client.socket.close(1000);
    await client.closed;
    await release();
    await expect.poll(() => given(someone, "chars")).toBe(before + chars);
  });

  test("need no call to the tenant while the allowance lasts, nor for repeated refusals", async () => {
    startOfHour();
    setLimits({ promptsPerHour: 400 });
    const someone = await user();
    const { client } = await open(someone);
    expect(await prompts(client, 1)).toBe(1);
    const release = await holdUp(someone.tenantObject);
    expect(await prompts(client, 3)).toBe(3);
    await release();
    expect(await prompts(client, 400)).toBe(396);
    const again = await holdUp(someone.tenantObject);
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
    await expect.poll(() => someone.tenantObject.countSockets("ann")).toBe(1);
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
    expect(await prompts((await open(watcher)).client, 4)).toBe(3);
  });

  test("are counted for a tenant that has counted only sessions so far, whose sessions stay counted", async () => {
    setLimits({ sessionsPerHour: 5 });
    const someone = await user();
    await runInDurableObject(someone.tenantObject, (_, { storage }) => {
      storage.sql.exec(
        `CREATE TABLE opening (
           subject TEXT NOT NULL, hour INTEGER NOT NULL, sessions INTEGER NOT NULL, PRIMARY KEY (subject, hour)
         )`,
      );
      const hour = Math.floor(Date.now() / HOUR);
      storage.sql.exec("INSERT INTO opening VALUES ('ann', ?, 4)", hour);
    });
    await evictDurableObject(someone.tenantObject);
    expect(await someone.tenantObject.takeSessionQuota("ann")).toBe(true);
    expect(await someone.tenantObject.takeSessionQuota("ann")).toBe(false);
    expect(await someone.tenantObject.takeSessionQuota("bob")).toBe(true);
    expect(await prompts((await open(someone)).client, 1)).toBe(1);
  });
});
