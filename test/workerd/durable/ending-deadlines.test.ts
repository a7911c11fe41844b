import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, test, vi } from "vitest";
import { Deadlines } from "../../../src/durable/deadlines.ts";
import { TenantState } from "../../../src/tenant/tenant-state.ts";

type Name = "archive" | "index";
type Row = { name: string; at: number; failures: number };

afterEach(() => {
  vi.restoreAllMocks();
});

/** A fresh object whose alarm serves two deadlines. The handler of the first one ends the object. */
function mortalObject() {
  const name = crypto.randomUUID();
  // A stub stays broken after its object has ended.
  const stub = () => env.TENANT_DO.getByName(name);
  const served: string[] = [];
  let ends = 0;
  const run = (ctx: DurableObjectState, now: number) =>
    new Deadlines<Name>(ctx.storage).run(now, {
      archive: () => {
        ends += 1;
        ctx.abort("ended by a handler");
        return new Promise(() => {});
      },
      index: () => void served.push("index"),
    });
  vi.spyOn(TenantState.prototype, "alarm").mockImplementation(function (this: TenantState) {
    return run((this as unknown as { ctx: DurableObjectState }).ctx, Date.now());
  });
  return {
    served,
    ends: () => ends,
    set: (...names: Name[]) =>
      runInDurableObject(stub(), (_, { storage }) => {
        const deadlines = new Deadlines<Name>(storage);
        for (const one of names) deadlines.set(one, Date.now());
      }),
    /** Serves the deadlines as the alarm does, at another time. */
    runAt: (now: number) => runInDurableObject(stub(), (_, ctx) => run(ctx, now)).catch(() => {}),
    rows: () =>
      runInDurableObject(stub(), (_, { storage }) =>
        storage.sql.exec<Row>("SELECT * FROM deadline").toArray(),
      ),
    alarm: () => runInDurableObject(stub(), (_, { storage }) => storage.getAlarm()),
  };
}

test("a handler that ends its object keeps no other deadline waiting, and its tries are counted", async () => {
  const object = mortalObject();
  await object.set("archive", "index");
  await vi.waitUntil(() => object.served.length > 0, { timeout: 20_000 });
  expect(object.served).toEqual(["index"]);
  expect(object.ends()).toBeGreaterThan(1);
  const [row] = await object.rows();
  expect(row?.name).toBe("archive");
  expect(row?.failures).toBeGreaterThan(0);
  expect(await object.alarm()).not.toBeNull();
});

test("a handler that ends its object again and again is tried once a day", async () => {
  const object = mortalObject();
  await object.set("archive");
  vi.spyOn(TenantState.prototype, "alarm").mockImplementation(async () => {});
  for (let tries = 1; tries <= 11; tries += 1) {
    const [row] = await object.rows();
    await object.runAt((row?.at ?? 0) + 5000);
    expect(await object.rows()).toMatchObject([{ name: "archive", failures: tries }]);
  }
  expect(object.ends()).toBeGreaterThanOrEqual(11);
  const [row] = await object.rows();
  expect(row?.at).toBeGreaterThan(Date.now() + 12 * 60 * 60_000);
});
