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

const tenants = new Set<string>();

/** Overrides limits for a tenant whose object has been used already. */
export async function setLimitsOf(tenant: string, changes: Partial<Limits>): Promise<void> {
  setLimits(changes);
  tenants.add(tenant);
  await evictTenant(tenant);
}

export async function resetLimits(): Promise<void> {
  overrides = {};
  delete env.LIMITS;
  for (const tenant of tenants) await evictTenant(tenant);
  tenants.clear();
}

/** An object that is not running cannot be evicted, and reads its limits when it starts. */
async function evictTenant(tenant: string): Promise<void> {
  await evictDurableObject(env.TENANT_DO.getByName(tenant)).catch(() => {});
}
