import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { SubjectToken } from "../../../src/protocol/subject-rpc.ts";
import { TenantState } from "../../../src/tenant/tenant-state.ts";
import { endFaults, failCalls } from "../faults.ts";
import { subjectStub } from "../fixtures.ts";
import { fakeTime, HOUR } from "./fixtures.ts";

/** Reports of revocations between a tenant and the objects of its subjects, when a release or a call comes in between. */

const MINUTE = 60_000;

beforeEach(() => {
  fakeTime();
});
afterEach(() => {
  endFaults();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function someone(name: string = crypto.randomUUID(), tenant: string = crypto.randomUUID()) {
  const expires = Math.floor(Date.now() / 1000) + 7 * 24 * 3600;
  const token: SubjectToken = { tenant, subject: name, jti: crypto.randomUUID(), workspace: null, expires };
  const stub = subjectStub(name, tenant);
  const tenantStub = env.TENANT_DO.getByName(tenant);
  return {
    ...{ token, tenant, stub, tenantStub, isRevoked: () => stub.isRevoked(token) },
    order: { tenant, subject: name, waitMs: 100 },
    /** Anybody wakes the tenant, which reports by its alarm. */
    wakeTenant: async () => {
      await tenantStub.isInUse();
      await runDurableObjectAlarm(tenantStub);
    },
    /** Statements of a release that knows nothing of subjects. The tenant starts anew afterwards. */
    beforeThisRelease: async (...statements: string[]) => {
      await runInDurableObject(tenantStub, (_, { storage }) => {
        for (const statement of statements) storage.sql.exec(statement);
      });
      await evictDurableObject(tenantStub);
    },
  };
}
type Someone = ReturnType<typeof someone>;

const revocation = (kind: string, value: string | null) =>
  `INSERT INTO revocation (id, kind, value, workspace, by_subject, at) VALUES ('r', '${kind}', '${value}', '', 'root', 1)`;

describe("a change of rights by a release without subjects", () => {
  test.each<[string, (one: Someone) => string]>([
    ["a revocation of the subject", ({ token }) => revocation("subject", token.subject)],
    ["a revocation of the token", ({ token }) => revocation("jti", token.jti)],
    ["a logout", ({ token }) => `INSERT OR REPLACE INTO logout VALUES ('${token.jti}', ${token.expires})`],
  ])("%s reaches the subject when its tenant starts anew", async (_, statement) => {
    const one = someone();
    const other = someone(undefined, one.tenant);
    expect([await one.isRevoked(), await other.isRevoked()]).toEqual([false, false]);
    await one.beforeThisRelease(statement(one));
    await one.wakeTenant();
    await vi.waitFor(async () => expect(await one.isRevoked()).toBe(true));
    expect(await other.isRevoked()).toBe(false);
  });

  test("the end of a revocation reaches the subject too", async () => {
    const one = someone();
    expect(await one.isRevoked()).toBe(false);
    await one.beforeThisRelease(revocation("subject", one.token.subject));
    await one.wakeTenant();
    await vi.waitFor(async () => expect(await one.isRevoked()).toBe(true));
    await one.beforeThisRelease("DELETE FROM revocation");
    await one.wakeTenant();
    await vi.waitFor(async () => expect(await one.isRevoked()).toBe(false));
  });

  test("is found by a subject whose isolate has not heard from the tenant lately, and wakes the tenant", async () => {
    const one = someone();
    const asleep = someone(undefined, one.tenant);
    expect([await one.isRevoked(), await asleep.isRevoked()]).toEqual([false, false]);
    await one.beforeThisRelease(revocation("subject", one.token.subject));
    vi.setSystemTime(Date.now() + 11 * MINUTE);
    expect(await one.isRevoked()).toBe(true);
    expect(await asleep.isRevoked()).toBe(false);
  });
});

test("[I11] a known token stays valid while its tenant does not respond, and the tenant is not asked for each check", async () => {
  const one = someone();
  expect(await one.isRevoked()).toBe(false);
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.setSystemTime(Date.now() + 11 * MINUTE);
  const calls = failCalls("tenant.noteToken", "overloaded", 5);
  expect([await one.isRevoked(), await one.isRevoked()]).toEqual([false, false]);
  expect(calls()).toBe(1);
});

test("a report that overtakes the answer about the first token counts", async () => {
  const { token, stub, order } = someone();
  let [isAsked, isAnswered] = [false, false];
  const { noteToken } = TenantState.prototype;
  const spy = vi.spyOn(TenantState.prototype, "noteToken") as unknown as {
    mockImplementation(implementation: (this: TenantState, token: SubjectToken) => unknown): void;
  };
  spy.mockImplementation(async function (noted) {
    const list = noteToken.call(this, noted);
    isAsked = true;
    while (!isAnswered) await scheduler.wait(5);
    return list;
  });
  const first = stub.isRevoked(token);
  await vi.waitFor(() => expect(isAsked).toBe(true));
  const revocations = [{ kind: "subject" as const, value: token.subject, workspace: null, until: null }];
  await stub.applyRevocations({ ...order, revision: 1000, revocations });
  isAnswered = true;
  expect([await first, await stub.isRevoked(token)]).toEqual([true, true]);
});

test("a subject whose first token gets no answer leaves nothing, although a report came meanwhile", async () => {
  const { token, stub, order } = someone();
  const calls = failCalls("tenant.noteToken", "silent");
  void stub.isRevoked(token).catch(() => {});
  await vi.waitFor(() => expect(calls()).toBe(1));
  await stub.applyRevocations({ ...order, revision: 1, revocations: [] });
  await runInDurableObject(stub, (_, state) => state.abort("reset")).catch(() => {});
  vi.setSystemTime(Date.now() + HOUR);
  const started = subjectStub(token.subject, token.tenant);
  await runDurableObjectAlarm(started);
  expect(await runInDurableObject(started, async (_, { storage }) => (await storage.list()).size)).toBe(0);
});

test("a call about a first token that the platform loses is repeated", async () => {
  const { token, stub } = someone();
  vi.spyOn(console, "warn").mockImplementation(() => {});
  const calls = failCalls("tenant.noteToken", "unsent");
  expect(await stub.isRevoked(token)).toBe(false);
  expect(calls()).toBe(2);
});

test("each check of a share's bearer asks the tenant, and costs neither object a row", async () => {
  const { tenant, tenantStub, token } = someone();
  const made = await tenantStub.createShare(
    { tenant, subject: token.subject, workspaces: ["w"], scopes: ["share"], expires: token.expires },
    { session: crypto.randomUUID(), workspace: "w", expires: Date.now() + HOUR, redact: false },
    crypto.randomUUID(),
  );
  if (!made.ok) throw new Error(made.refusal.message);
  const name = `share:${made.value.id}`;
  const stub = subjectStub(name, tenant);
  const expires = Math.floor((Date.now() + HOUR) / 1000);
  const check = () => stub.isRevoked({ tenant, subject: name, jti: name, workspace: "w", expires });
  const states = () =>
    Promise.all(
      [stub, tenantStub].map((object) =>
        runInDurableObject(object, (_, { storage }) => [
          storage.sql.exec<{ n: number }>("SELECT total_changes() AS n").one().n,
          storage.kv.get("revision"),
        ]),
      ),
    );
  // The tenant's jurisdiction is put on record in the background.
  await vi.waitFor(() =>
    runInDurableObject(tenantStub, (_, { storage }) =>
      expect(storage.kv.get("jurisdiction-claimed")).toBe(true),
    ),
  );
  expect(await check()).toBe(false);
  const before = await states();
  expect(await check()).toBe(false);
  expect(await states()).toEqual(before);
  await tenantStub.removeShare(
    { tenant, subject: token.subject, workspaces: ["w"], scopes: ["share"], expires: token.expires },
    made.value.id,
  );
  expect(await check()).toBe(true);
});
