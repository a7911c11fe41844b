import { env } from "cloudflare:workers";
import { LIMITS, type Limits, overrideLimits } from "../../src/protocol/limits.ts";

const DEFAULTS = JSON.stringify(LIMITS);
let overrides: Partial<Limits> = {};

/**
 * Overrides limits until the end of the test, in addition to earlier overrides. Objects read their limits when they are
 * constructed, so a test overrides them before it reaches an object, or evicts the object.
 */
export function setLimits(changes: Partial<Limits>): void {
  overrides = { ...overrides, ...changes };
  env.LIMITS = JSON.stringify(overrides);
  overrideLimits(env.LIMITS);
}

export function resetLimits(): void {
  overrides = {};
  delete env.LIMITS;
  overrideLimits(DEFAULTS);
}
