import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { jurisdictionRecord, tenantObject } from "../../src/durable/objects.ts";
import { get, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { token } from "./tokens.ts";

// The local runtime has no objects in jurisdictions, so these are the tenant without one, and the record. How a tenant
// refuses its callers is in test/e2e/regions.test.ts: objects in this test environment answer their first call anyhow.

const tenantName = () => `t-${crypto.randomUUID()}`;

const list = async (tenant: string) =>
  get("/api/sessions", await token({ tenant, workspace: workspaceName() }));

const keysOf = (stub: DurableObjectStub) =>
  runInDurableObject(stub, (_, { storage }) => [...storage.kv.list()].map(([key]) => key));

describe("the jurisdiction of a tenant", () => {
  test("is on record after the tenant's first use, and is never another one", async () => {
    const tenant = tenantName();
    await Client.open(workspaceName(), "", tenant);
    const record = jurisdictionRecord(env, tenant);
    await vi.waitUntil(async () => (await record.recordedJurisdiction(null)) === null);
    expect(await record.claimJurisdiction("eu")).toBeNull();
    await evictDurableObject(tenantObject(env, tenant));
    expect((await list(tenant)).status).toBe(200);
  });

  test("is none for a tenant that an earlier release has used, which kept no record", async () => {
    const tenant = tenantName();
    await Client.open(workspaceName(), "", tenant);
    const record = jurisdictionRecord(env, tenant);
    await vi.waitUntil(async () => (await record.recordedJurisdiction(null)) === null);
    await runInDurableObject(record, (_, { storage }) => storage.deleteAll());
    expect(await record.recordedJurisdiction("eu")).toBeNull();
    expect(await record.claimJurisdiction("eu")).toBeNull();
  });

  test("is the first one recorded, although an earlier claim of another waits for an answer", async () => {
    const record = jurisdictionRecord(env, tenantName());
    // The claim of a jurisdiction first asks the tenant without one; the claim of none asks nobody.
    const claims = await Promise.all([record.claimJurisdiction("eu"), record.claimJurisdiction(null)]);
    expect(claims).toEqual([null, null]);
    expect(await record.recordedJurisdiction(null)).toBeNull();
  });

  test("holds up no call for long when the record does not respond", async () => {
    const tenant = tenantName();
    const record = jurisdictionRecord(env, tenant);
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const blocked = runInDurableObject(record, (_, ctx) => ctx.blockConcurrencyWhile(() => held));
    const response = await list(tenant);
    release();
    await blocked;
    expect(response.status).toBe(200);
  }, 20_000);

  test("is not recorded for a tenant that has stored nothing", async () => {
    const tenant = tenantName();
    const maker = { subject: "somebody", jti: null, workspace: null };
    expect(await tenantObject(env, tenant).isMakerRevoked(maker)).toBe(false);
    expect(await keysOf(jurisdictionRecord(env, tenant))).toEqual([]);
    expect(await keysOf(tenantObject(env, tenant))).toEqual([]);
    expect(await jurisdictionRecord(env, tenant).claimJurisdiction("us")).toBe("us");
  });
});

test("a wrong REGIONS refuses every caller", async () => {
  env.REGIONS = '{"acme":{"jurisdiction":"mars"}}';
  onTestFinished(() => {
    delete env.REGIONS;
  });
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  onTestFinished(() => logged.mockRestore());
  expect((await list("acme")).status).toBe(503);
  expect(JSON.stringify(logged.mock.calls)).toContain("mars, for acme, is no jurisdiction");
});
