import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS, type Limits } from "../../../src/protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../../../src/protocol/rpc.ts";
import {
  add,
  entries,
  grantOf,
  hourOf,
  limitOf,
  missing,
  spend,
  subtract,
} from "../../../src/tenant/allowance.ts";

const HOUR = 3_600_000;

/** A model of a tenant with one subject and its connections. */
class World {
  now = 0;
  readonly limits: Limits;
  readonly given = new Map<string, number>();
  readonly used = new Map<string, number>();
  readonly connections = new Map<number, Allowance | undefined>();

  constructor(overrides: Partial<Limits> = {}) {
    this.limits = { ...DEFAULT_LIMITS, ...overrides };
  }

  limitOf(quota: Quota): number {
    return limitOf(this.limits, quota);
  }

  /** The tenant's side: hands out an allowance. */
  grant(asked: Amounts): Allowance {
    const hour = hourOf(this.now);
    const left = Object.fromEntries(
      entries(asked).map(([quota, amount]) => {
        const grant = grantOf(
          this.limitOf(quota) - this.#of(this.given, quota),
          amount,
          this.connections.size,
        );
        this.#count(this.given, quota, grant);
        return [quota, grant];
      }),
    );
    return { hour, left };
  }

  /** The connection's side: pays for a message. Returns false when the message is refused. */
  send(connection: number, cost: Amounts): boolean {
    const held = this.connections.get(connection);
    let left = spend(held, cost, this.now);
    if (!left) {
      const more = add(held, this.grant(missing(held, cost, this.now)));
      this.connections.set(connection, more);
      left = subtract(more, cost);
    }
    if (!left) return false;
    this.connections.set(connection, left);
    for (const [quota, amount] of entries(cost)) this.#count(this.used, quota, amount);
    return true;
  }

  close(connection: number): void {
    const held = this.connections.get(connection);
    this.connections.delete(connection);
    if (held?.hour !== hourOf(this.now)) return;
    for (const [quota, amount] of entries(held.left)) this.#count(this.given, quota, -amount);
  }

  usedOf(quota: Quota): number {
    return this.#of(this.used, quota);
  }

  #of(amounts: Map<string, number>, quota: Quota): number {
    return amounts.get(`${hourOf(this.now)} ${quota}`) ?? 0;
  }

  #count(amounts: Map<string, number>, quota: Quota, amount: number): void {
    const key = `${hourOf(this.now)} ${quota}`;
    amounts.set(key, (amounts.get(key) ?? 0) + amount);
  }
}

const step = fc.oneof(
  { weight: 20, arbitrary: fc.record({ on: fc.nat(30), chars: fc.integer({ min: 1, max: 3000 }) }) },
  { weight: 10, arbitrary: fc.record({ on: fc.nat(30), prompt: fc.constant(true) }) },
  { weight: 2, arbitrary: fc.record({ closes: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ passes: fc.integer({ min: 1, max: HOUR }) }) },
);

describe("allowances", () => {
  test("never add up to more than the limit, and leave little unused when somebody is refused", () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 400 }),
        fc.integer({ min: 1, max: 60 }),
        fc.integer({ min: 100, max: 40_000 }),
        (steps, promptsPerHour, charsPerHour) => {
          const world = new World({ promptsPerHour, charsPerHour });
          for (const one of steps) {
            if ("passes" in one) world.now += one.passes;
            else if ("closes" in one) world.close(one.closes);
            else {
              const cost = "prompt" in one ? { chars: 50, prompts: 1 } : { chars: one.chars, prompts: 0 };
              if (!world.connections.has(one.on)) world.connections.set(one.on, undefined);
              if (world.send(one.on, cost)) continue;
              // Every refusal comes close to the limit: the refused amount would nearly reach it.
              const isShort = (["chars", "prompts"] as const).some((quota) => {
                const unused = world.limitOf(quota) / 10;
                return world.usedOf(quota) + cost[quota] > world.limitOf(quota) - unused;
              });
              expect(isShort).toBe(true);
            }
            for (const quota of ["chars", "prompts"] as const)
              expect(world.usedOf(quota)).toBeLessThanOrEqual(world.limitOf(quota));
          }
        },
      ),
    );
  });

  test("are used up to the last prompt by one connection", () => {
    const world = new World({ promptsPerHour: 1234 });
    world.connections.set(1, undefined);
    let prompts = 0;
    while (world.send(1, { prompts: 1 })) prompts += 1;
    expect(prompts).toBe(1234);
  });

  test("are requested seldom, and become small towards the limit", () => {
    const world = new World();
    world.connections.set(1, undefined);
    let asked = 0;
    const grant = world.grant.bind(world);
    world.grant = (amounts) => {
      asked += 1;
      return grant(amounts);
    };
    while (world.send(1, { prompts: 1 })) {}
    expect(world.usedOf("prompts")).toBe(world.limits.promptsPerHour);
    expect(asked).toBeLessThan(world.limits.promptsPerHour / 10);
    expect(grantOf(50, 1, 1)).toBe(1);
    expect(grantOf(50, 51, 1)).toBe(0);
  });

  test("are worth nothing after their hour", () => {
    const allowance = { hour: 0, left: { chars: 10 } };
    expect(spend(allowance, { chars: 10 }, HOUR - 1)).toEqual({ hour: 0, left: { chars: 0 } });
    expect(spend(allowance, { chars: 10 }, HOUR)).toBeUndefined();
    expect(missing(allowance, { chars: 10 }, HOUR)).toEqual({ chars: 10 });
    expect(add(allowance, { hour: 1, left: { chars: 3 } })).toEqual({ hour: 1, left: { chars: 3 } });
  });

  test("divide the characters of an hour into a general part and a reserve", () => {
    const limits = { ...DEFAULT_LIMITS, charsPerHour: 6400 };
    expect([limitOf(limits, "chars"), limitOf(limits, "reserve")]).toEqual([6300, 100]);
  });
});
