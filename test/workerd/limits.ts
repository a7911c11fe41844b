import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Limits } from "../../src/protocol/limits.ts";

let overrides: Partial<Limits> = {};

/**
 * Overrides limits until the end of the test, in addition to earlier overrides. Objects read their limits when they are
 * constructed, so a test overrides them before it reaches an object, or evicts the object.
 */
export function setLimits(changes: Partial<Limits>): void {
  overrides = { ...overrides, ...changes };
  env.LIMITS = JSON.stringify(overrides);
}

const used = new Set<DurableObjectStub>();

/** Overrides limits for a tenant and one of its subjects, whose objects have been used already. */
export async function setLimitsOf(
  tenant: string,
  changes: Partial<Limits>,
  subject = "someone",
): Promise<void> {
  setLimits(changes);
  used.add(env.TENANT_DO.getByName(tenant));
  used.add(env.SUBJECT_DO.getByName(`${tenant}/${subject}`));
  await evictUsed();
}

export async function resetLimits(): Promise<void> {
  overrides = {};
  delete env.LIMITS;
  await evictUsed();
  used.clear();
}

/** An object that is not running cannot be evicted, and reads its limits when it starts. */
async function evictUsed(): Promise<void> {
  for (const object of used) await evictDurableObject(object).catch(() => {});
}
