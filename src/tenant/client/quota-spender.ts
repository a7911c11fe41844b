import type { Caller } from "../../protocol/caller.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../../protocol/rpc.ts";
import { add, entries, missing, retryAfterMs, spend, subtract } from "../allowance.ts";

/** What is left when something was paid for; if it could not be, also what there is too little of. */
export type Payment = { readonly allowance: Allowance | undefined; readonly short?: Quota };
/** Several ways to pay for something: the first that is possible is taken. */
export type Ways = readonly [Amounts, ...Amounts[]];

/** Pays from an allowance, and asks the tenant for more when it does not suffice. What is left is the holder's to keep. */
export class Purse {
  readonly #env: Env;
  readonly #refused = new Map<Quota, { amount: number; until: number }>();

  constructor(env: Env) {
    this.#env = env;
  }

  /** At once if the allowance suffices. */
  pay(caller: Caller, allowance: Allowance | undefined, ways: Ways): Payment | Promise<Payment> {
    for (const cost of ways) {
      const left = spend(allowance, cost, Date.now());
      if (left) return { allowance: left };
    }
    return this.#ask(caller, allowance, ways);
  }

  async #ask(caller: Caller, allowance: Allowance | undefined, ways: Ways): Promise<Payment> {
    let held = allowance;
    let short: Quota | undefined;
    for (const cost of ways) {
      const asked = missing(held, cost, Date.now());
      let refused = this.#refusedLately(asked);
      if (refused === undefined) {
        const granted = await this.#allow(caller, asked);
        held = add(held, granted);
        const left = subtract(held, cost);
        if (left) return { allowance: left };
        refused = this.#note(asked, granted);
        // Another hour has begun meanwhile: what was held is of no use, and all of it has to be asked for.
        if (refused === undefined) return this.#ask(caller, held, ways);
      }
      short ??= refused;
    }
    return { allowance: held, ...(short && { short }) };
  }

  /** Whoever has no more and goes on sending must not trouble the tenant with each message. */
  #refusedLately(asked: Amounts): Quota | undefined {
    return entries(asked).find(([quota, amount]) => {
      const { amount: refused, until } = this.#refused.get(quota) ?? { amount: 0, until: 0 };
      return until > Date.now() && amount >= refused;
    })?.[0];
  }

  #note(asked: Amounts, granted: Allowance): Quota | undefined {
    const now = Date.now();
    const until = now + Math.min(LIMITS.quotaAskMs, retryAfterMs(now));
    const refused = entries(asked).filter(([quota, amount]) => amount > (granted.left[quota] ?? 0));
    for (const [quota, amount] of refused) this.#refused.set(quota, { amount, until });
    return refused[0]?.[0];
  }

  /** An answer that is lost is lost for the hour: the tenant has counted it. */
  async #allow({ tenant, subject }: Caller, asked: Amounts): Promise<Allowance> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#env.TENANT_DO.getByName(tenant).allow(subject, asked);
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }
}

const ATTEMPTS = 3;
