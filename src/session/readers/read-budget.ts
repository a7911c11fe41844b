import type { Caller } from "../../protocol/caller.ts";
import { type Refused, refused } from "../../protocol/refusal.ts";
import { isByLink } from "./places.ts";

/** The part of the object's key-value storage that the budget needs. */
type BudgetStore = { get<T>(key: string): T | undefined; put<T>(key: string, value: T): void };

/** Characters that readers have added in an hour. */
type Spent = { readonly hour: number; readonly chars: number };

/**
 * The characters that readers may add to the log by attaching, per hour. Bearers of links share one budget and the
 * workspace's own readers another, so that a link cannot use up what the others need.
 */
export class ReadBudget {
  readonly #store: BudgetStore;
  readonly #charsPerHour: number;

  constructor(store: BudgetStore, charsPerHour: number) {
    this.#store = store;
    this.#charsPerHour = charsPerHour;
  }

  /** The refusal of a reader when its kind has spent the budget. */
  refusal(caller: Caller, now: number): Refused | undefined {
    const { hour, chars } = this.#spent(caller, now);
    if (chars < this.#charsPerHour) return undefined;
    const retryAfterMs = (hour + 1) * HOUR_MS - now;
    return refused({ reason: "too-many", message: "Too many readers have attached this hour", retryAfterMs });
  }

  spend(caller: Caller, chars: number, now: number): void {
    const { hour, chars: before } = this.#spent(caller, now);
    this.#store.put(keyOf(caller), { hour, chars: before + chars } satisfies Spent);
  }

  #spent(caller: Caller, now: number): Spent {
    const hour = Math.floor(now / HOUR_MS);
    const spent = this.#store.get<Spent>(keyOf(caller));
    return spent?.hour === hour ? spent : { hour, chars: 0 };
  }
}

const HOUR_MS = 3_600_000;

function keyOf(caller: Caller): string {
  return isByLink(caller) ? "read-by-link" : "read";
}
