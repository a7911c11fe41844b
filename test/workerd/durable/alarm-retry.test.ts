import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { AlarmRetry } from "../../../src/durable/alarm-retry.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(() => {
  vi.restoreAllMocks();
});

function withStorage(use: (storage: DurableObjectStorage) => Promise<void>): Promise<void> {
  const stub = env.TENANT_DO.getByName(crypto.randomUUID());
  return runInDurableObject(stub, (_, ctx) => use(ctx.storage));
}

const failing = () => Promise.reject(new Error("the archive does not answer"));

describe("the alarm of an object that cannot be loaded", () => {
  test("is set again, with growing pauses", () =>
    withStorage(async (storage) => {
      const retry = new AlarmRetry(storage);
      const pauses: number[] = [];
      for (let failures = 1; failures <= 12; failures += 1) {
        const before = Date.now();
        expect(await retry.load(failing)).toBeUndefined();
        pauses.push(((await storage.getAlarm()) ?? 0) - before);
      }
      expect(Math.min(...pauses)).toBeGreaterThanOrEqual(30_000);
      expect(Math.max(...pauses)).toBeGreaterThanOrEqual(5 * 60_000);
      expect(Math.max(...pauses)).toBeLessThanOrEqual(7.5 * 60_000 + 1000);
    }));

  test("is left alone when the object is loaded, or when there is nothing to load", () =>
    withStorage(async (storage) => {
      const retry = new AlarmRetry(storage);
      expect(await retry.load(async () => "loaded")).toBe("loaded");
      expect(await retry.load(async () => undefined)).toBeUndefined();
      expect(await storage.getAlarm()).toBeNull();
    }));
});
