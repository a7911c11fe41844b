import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { type DeadlineHandler, Deadlines, retryDelayMs } from "../../../src/durable/deadlines.ts";

type Name = "archive" | "index" | "release";

/** Runs against the storage of a fresh object, as the objects of the gateway do. */
function withStorage<T>(use: (storage: DurableObjectStorage) => T | Promise<T>): Promise<T> {
  const stub = env.TENANT_DO.getByName(crypto.randomUUID());
  return runInDurableObject(stub, (_, ctx) => use(ctx.storage));
}

function handlers(served: string[], own: Partial<Record<Name, DeadlineHandler>> = {}) {
  const note = (name: string) => () => void served.push(name);
  return { archive: note("archive"), index: note("index"), release: note("release"), ...own };
}

const rows = (storage: DurableObjectStorage) =>
  storage.sql.exec<{ name: string; at: number }>("SELECT name, at FROM deadline ORDER BY name").toArray();

describe("deadlines over the one alarm of an object", () => {
  test("are served in the order of their times, and only when they are due", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("index", 20);
      deadlines.set("archive", 10);
      deadlines.set("release", 30);
      const served: string[] = [];
      await deadlines.run(20, handlers(served));
      expect(served).toEqual(["archive", "index"]);
      expect(rows(storage)).toEqual([{ name: "release", at: 30 }]);
    }));

  test("arm the alarm for the earliest of them", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      const soon = Date.now() + 60_000;
      deadlines.set("index", soon + 1000);
      deadlines.set("archive", soon);
      expect(await storage.getAlarm()).toBe(soon);
      await deadlines.run(soon, handlers([]));
      expect(await storage.getAlarm()).toBe(soon + 1000);
    }));

  test("stay in storage until their handler has succeeded", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("index", 10);
      const during: unknown[] = [];
      await deadlines.run(10, handlers([], { index: () => void during.push(...rows(storage)) }));
      expect(during).toEqual([{ name: "index", at: 10 }]);
      expect(rows(storage)).toEqual([]);
    }));

  test("stop for no failing handler, which is tried again after growing pauses", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("archive", 10);
      deadlines.set("index", 20);
      const served: string[] = [];
      const broken = handlers(served, {
        archive: () => {
          throw new Error("the bucket does not answer");
        },
      });
      const before = Date.now();
      await deadlines.run(20, broken);
      expect(served).toEqual(["index"]);
      const [first] = rows(storage);
      expect(first?.name).toBe("archive");
      expect(first?.at).toBeGreaterThanOrEqual(before + retryDelayMs(1));
      await deadlines.run(first?.at ?? 0, broken);
      const [second] = rows(storage);
      expect(second?.at).toBeGreaterThanOrEqual(before + retryDelayMs(2));
      await deadlines.run(second?.at ?? 0, handlers(served));
      expect(served).toEqual(["index", "archive"]);
      expect(rows(storage)).toEqual([]);
    }));

  test("double the pause between tries up to five minutes", () => {
    expect([1, 2, 3, 20].map(retryDelayMs)).toEqual([1000, 2000, 4000, 300_000]);
  });

  test("may be set anew by their own handler", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("index", 10);
      deadlines.set("archive", 10);
      await deadlines.run(
        10,
        handlers([], {
          index: () => deadlines.setUnlessSet("index", 50),
          archive: () => deadlines.set("archive", 60),
        }),
      );
      expect(rows(storage)).toEqual([
        { name: "archive", at: 60 },
        { name: "index", at: 50 },
      ]);
    }));

  test("keep the time their own handler has set although the handler fails", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("index", 10);
      await deadlines.run(
        10,
        handlers([], {
          index: () => {
            deadlines.set("index", 50);
            throw new Error("too early");
          },
        }),
      );
      expect(rows(storage)).toEqual([{ name: "index", at: 50 }]);
    }));

  test("may be cleared or moved by the handler of another deadline", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("archive", 10);
      deadlines.set("index", 11);
      deadlines.set("release", 12);
      const served: string[] = [];
      await deadlines.run(
        20,
        handlers(served, {
          archive: () => {
            deadlines.clear("index");
            deadlines.set("release", 99);
          },
        }),
      );
      expect(served).toEqual([]);
      expect(rows(storage)).toEqual([{ name: "release", at: 99 }]);
    }));

  test("set for the earliest of many times keep an earlier time", () =>
    withStorage((storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.setAtMost("index", 20);
      deadlines.setAtMost("index", 30);
      expect(rows(storage)).toEqual([{ name: "index", at: 20 }]);
      deadlines.setAtMost("index", 10);
      expect(rows(storage)).toEqual([{ name: "index", at: 10 }]);
    }));

  test("end with the storage that a handler deletes, and can be set again afterwards", () =>
    withStorage(async (storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("archive", 10);
      deadlines.set("index", 11);
      const served: string[] = [];
      await deadlines.run(
        20,
        handlers(served, {
          archive: async () => {
            deadlines.forget();
            await storage.deleteAll();
          },
        }),
      );
      expect(served).toEqual([]);
      deadlines.set("release", 30);
      expect(rows(storage)).toEqual([{ name: "release", at: 30 }]);
    }));

  test("[I9] survive the eviction of their object", () =>
    withStorage(async (storage) => {
      new Deadlines<Name>(storage).set("index", 10);
      const served: string[] = [];
      await new Deadlines<Name>(storage).run(10, handlers(served));
      expect(served).toEqual(["index"]);
    }));

  test("move the alarm only for an earlier time", () =>
    withStorage(async (storage) => {
      const { counted, alarms } = countAlarms(storage);
      const soon = Date.now() + 60_000;
      const deadlines = new Deadlines<Name>(counted);
      deadlines.set("index", soon);
      deadlines.set("index", soon);
      deadlines.set("archive", soon + 1000);
      deadlines.set("index", soon + 2000);
      // An object that was evicted meanwhile knows the alarm from its rows.
      new Deadlines<Name>(counted).set("release", soon + 3000);
      expect(alarms).toEqual([soon]);
      new Deadlines<Name>(counted).set("release", soon - 1000);
      expect(alarms).toEqual([soon, soon - 1000]);
      await new Deadlines<Name>(counted).run(soon, handlers([]));
      expect(alarms.at(-1)).toBe(soon + 1000);
    }));

  test("write no row for a time that is set already", () =>
    withStorage((storage) => {
      const deadlines = new Deadlines<Name>(storage);
      deadlines.set("index", 10);
      storage.sql.exec("UPDATE deadline SET at = 11");
      deadlines.set("index", 10);
      expect(rows(storage)).toEqual([{ name: "index", at: 11 }]);
    }));

  test("set the alarm again after the platform gave it up", () =>
    withStorage(async (storage) => {
      new Deadlines<Name>(storage).set("index", Date.now() - 1000);
      await storage.deleteAlarm();
      new Deadlines<Name>(storage).set("archive", Date.now() + 60_000);
      expect(await storage.getAlarm()).not.toBeNull();
    }));

  test("go on growing their pauses in an object that was evicted, until the handler succeeds", () =>
    withStorage(async (storage) => {
      new Deadlines<Name>(storage).set("index", 10);
      const broken = handlers([], {
        index: () => {
          throw new Error("the index does not answer");
        },
      });
      for (let failures = 1; failures <= 4; failures += 1) {
        const before = Date.now();
        await new Deadlines<Name>(storage).run(Date.now() + 1e9, broken);
        const pause = (rows(storage)[0]?.at ?? 0) - before;
        expect(pause).toBeGreaterThanOrEqual(retryDelayMs(failures));
        expect(pause).toBeLessThanOrEqual(1.5 * retryDelayMs(failures) + 1000);
      }
      const mended = new Deadlines<Name>(storage);
      await mended.run(Date.now() + 1e9, handlers([], { index: () => mended.set("index", 50) }));
      await new Deadlines<Name>(storage).run(50, broken);
      const at = rows(storage)[0]?.at ?? 0;
      expect(at - Date.now()).toBeLessThanOrEqual(1.5 * retryDelayMs(1));
    }));

  test("of an earlier build are kept", () =>
    withStorage(async (storage) => {
      storage.sql.exec("CREATE TABLE deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL)");
      storage.sql.exec("INSERT INTO deadline VALUES ('index', 10), ('archive', 99)");
      const served: string[] = [];
      await new Deadlines<Name>(storage).run(10, handlers(served));
      expect(served).toEqual(["index"]);
      expect(rows(storage)).toEqual([{ name: "archive", at: 99 }]);
    }));
});

/** Storage whose alarms are counted. */
function countAlarms(storage: DurableObjectStorage) {
  const alarms: number[] = [];
  const setAlarm = (at: number) => {
    alarms.push(at);
    return storage.setAlarm(at);
  };
  return { alarms, counted: { sql: storage.sql, setAlarm } as unknown as DurableObjectStorage };
}
