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
});
