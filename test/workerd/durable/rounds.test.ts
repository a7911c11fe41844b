import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Deadlines, type Rounds } from "../../../src/durable/deadlines.ts";

const EVERY_MS = 60_000;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => {
  vi.useRealTimers();
});

/** Runs against the storage of a fresh object, as the objects of the gateway do. */
function withStorage(use: (storage: DurableObjectStorage) => Promise<void>): Promise<void> {
  const stub = env.TENANT_DO.getByName(crypto.randomUUID());
  return runInDurableObject(stub, (_, ctx) => use(ctx.storage));
}

function countedRounds() {
  const state = { made: 0, isNeeded: true };
  const rounds: Rounds = {
    everyMs: EVERY_MS,
    isNeeded: () => state.isNeeded,
    make: () => {
      state.made += 1;
    },
  };
  return { state, rounds };
}

const handlers = { index: () => {} };

/** Lets time pass up to the alarm, and runs it. */
async function passAlarm(storage: DurableObjectStorage, deadlines: Deadlines<"index">): Promise<void> {
  vi.setSystemTime((await storage.getAlarm()) as number);
  await storage.deleteAlarm();
  await deadlines.run(Date.now(), handlers);
}

describe("rounds over the one alarm of an object", () => {
  test("are made again and again while they are needed, and write no deadline", () =>
    withStorage(async (storage) => {
      const { state, rounds } = countedRounds();
      const deadlines = new Deadlines<"index">(storage, rounds);
      deadlines.beginRounds();
      expect(await storage.getAlarm()).toBe(Date.now() + EVERY_MS);
      for (let round = 1; round <= 3; round += 1) {
        await passAlarm(storage, deadlines);
        expect(state.made).toBe(round);
      }
      expect(storage.sql.exec("SELECT * FROM deadline").toArray()).toEqual([]);
      state.isNeeded = false;
      await passAlarm(storage, deadlines);
      expect(state.made).toBe(3);
      expect(await storage.getAlarm()).toBeNull();
    }));

  test("keep their interval when another deadline comes earlier or later", () =>
    withStorage(async (storage) => {
      const { state, rounds } = countedRounds();
      const deadlines = new Deadlines<"index">(storage, rounds);
      deadlines.beginRounds();
      await passAlarm(storage, deadlines);
      expect(state.made).toBe(1);
      const due = Date.now() + EVERY_MS;
      deadlines.set("index", due - 1000);
      await passAlarm(storage, deadlines);
      expect(state.made).toBe(1);
      expect(await storage.getAlarm()).toBe(due);
      deadlines.set("index", due + 1000);
      expect(await storage.getAlarm()).toBe(due);
      await passAlarm(storage, deadlines);
      expect(state.made).toBe(2);
    }));

  test("are made in an object that each of many changes wakes anew", () =>
    withStorage(async (storage) => {
      const { state, rounds } = countedRounds();
      for (let change = 1; change <= 5; change += 1) {
        const woken = new Deadlines<"index">(storage, rounds);
        woken.set("index", Date.now() + 1000);
        woken.beginRounds();
        await passAlarm(storage, woken);
        expect(state.made).toBe(change);
        expect(await storage.getAlarm()).toBe(Date.now() + EVERY_MS);
        vi.setSystemTime(Date.now() + EVERY_MS / 2);
      }
    }));

  test("go on in an object that was evicted, whatever it sets then", () =>
    withStorage(async (storage) => {
      const { state, rounds } = countedRounds();
      new Deadlines<"index">(storage, rounds).beginRounds();
      const woken = new Deadlines<"index">(storage, rounds);
      woken.set("index", Date.now() + 100 * EVERY_MS);
      expect(await storage.getAlarm()).toBe(Date.now() + EVERY_MS);
      await passAlarm(storage, new Deadlines<"index">(storage, rounds));
      expect(state.made).toBe(1);
      expect(await storage.getAlarm()).toBe(Date.now() + EVERY_MS);
    }));

  test("go on after a failed one, and stop no deadline", () =>
    withStorage(async (storage) => {
      const failing: Rounds = {
        everyMs: EVERY_MS,
        isNeeded: () => true,
        make: () => Promise.reject(new Error("failed on purpose")),
      };
      const deadlines = new Deadlines<"index">(storage, failing);
      deadlines.beginRounds();
      deadlines.set("index", Date.now() + EVERY_MS);
      await passAlarm(storage, deadlines);
      expect(storage.sql.exec("SELECT * FROM deadline").toArray()).toEqual([]);
      expect(await storage.getAlarm()).toBe(Date.now() + EVERY_MS);
    }));
});
