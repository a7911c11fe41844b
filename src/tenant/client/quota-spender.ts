import { callObject } from "../../durable/object-call.ts";
import { subjectObject } from "../../durable/objects.ts";
import type { Caller } from "../../protocol/caller.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../../protocol/rpc.ts";
import { add, entries, missing, retryAfterMs, spend, subtract } from "../allowance.ts";
import { type QuotaRefusal, quotaRefusal } from "./quota-refusal.ts";

/** The amounts that something costs; or several alternatives, of which the first that can be paid is charged. */
export type Cost = readonly [Amounts, ...Amounts[]];

/** The allowance after a charge. With a `refusal` nothing was charged, but the allowance may have grown. */
export type Charge = { readonly allowance: Allowance | undefined; readonly refusal?: QuotaRefusal };

/**
 * Charges costs to an allowance, and asks the subject's object for more when the allowance is too small. The owner of the
 * allowance stores what is left of it.
 */
export class QuotaSpender {
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #refused = new Map<Quota, { amount: number; until: number }>();

  constructor(env: Env, limits: Limits) {
    this.#env = env;
    this.#limits = limits;
  }

  /** Synchronous if the allowance suffices: most messages wait for nobody. */
  charge(caller: Caller, allowance: Allowance | undefined, cost: Cost): Charge | Promise<Charge> {
    for (const amounts of cost) {
      const left = spend(allowance, amounts, Date.now());
      if (left) return { allowance: left };
    }
    return this.#refillAndCharge(caller, allowance, cost);
  }

  async #refillAndCharge(caller: Caller, allowance: Allowance | undefined, cost: Cost): Promise<Charge> {
    let held = allowance;
    let exhausted: Quota | undefined;
    for (const amounts of cost) {
      const asked = missing(held, amounts, Date.now());
      let refused = this.#refusedLately(asked);
      if (refused === undefined) {
        const granted = await this.#grant(caller, asked);
        held = add(held, granted);
        const left = subtract(held, amounts);
        if (left) return { allowance: left };
        refused = this.#rememberRefusal(asked, granted);
        // Another hour has begun meanwhile: the held amounts expired, so the whole cost has to be asked for.
        if (refused === undefined) return this.#refillAndCharge(caller, held, cost);
      }
      exhausted ??= refused;
    }
    if (exhausted === undefined) return { allowance: held };
    return { allowance: held, refusal: quotaRefusal(this.#limits, exhausted, Date.now()) };
  }

  /** A client that goes on sending without quota must not cost its subject's object one call per message. */
  #refusedLately(asked: Amounts): Quota | undefined {
    return entries(asked).find(([quota, amount]) => {
      const { amount: refused, until } = this.#refused.get(quota) ?? { amount: 0, until: 0 };
      return until > Date.now() && amount >= refused;
    })?.[0];
  }

  #rememberRefusal(asked: Amounts, granted: Allowance): Quota | undefined {
    const now = Date.now();
    const until = now + Math.min(this.#limits.quotaAskMs, retryAfterMs(now));
    const refused = entries(asked).filter(([quota, amount]) => amount > (granted.left[quota] ?? 0));
    for (const [quota, amount] of refused) this.#refused.set(quota, { amount, until });
    return refused[0]?.[0];
  }

  /** A grant whose response is lost stays lost for the hour, because the subject's object has counted it. */
  #grant({ tenant, subject }: Caller, asked: Amounts): Promise<Allowance> {
    return callObject(
      () => subjectObject(this.#env, tenant, subject),
      (object) => object.grantAllowance(asked),
    );
  }
}
