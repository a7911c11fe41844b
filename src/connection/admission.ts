import type { Frame } from "../protocol/frame.ts";
import type { Limits } from "../protocol/limits.ts";
import { type Payment, Purse } from "../tenant/client/quota-spender.ts";
import { type Exceeded, exceeded } from "../tenant/quotas.ts";
import type { Client } from "./client.ts";
import { costOf } from "./message-cost.ts";

/** Counts a client's messages against the quotas of its subject. */
export class Admission {
  readonly #client: Client;
  readonly #limits: Limits;
  readonly #spender: Purse;

  constructor(env: Env, client: Client, limits: Limits) {
    this.#client = client;
    this.#limits = limits;
    this.#spender = new Purse(env);
  }

  /**
   * Counts one message, whether it is a frame or not. Resolves to the quota that it exceeds, if any; synchronously as
   * long as the client's allowance suffices. `number` is the client's own number of the message.
   */
  admit(
    chars: number,
    frame: Frame | undefined,
    number: number | undefined,
  ): Exceeded | undefined | Promise<Exceeded | undefined> {
    const { caller, allowance } = this.#client.state;
    const paid = this.#spender.pay(caller, allowance, costOf(chars, frame, this.#limits.smallChars));
    return paid instanceof Promise
      ? paid.then((payment) => this.#count(payment, number))
      : this.#count(paid, number);
  }

  /** One write for both the number of the message and the rest of the allowance. */
  #count({ allowance, short }: Payment, number: number | undefined): Exceeded | undefined {
    const sent = number ?? this.#client.state.sent + 1;
    this.#client.change({ sent, ...(allowance && { allowance }) });
    return short === undefined ? undefined : exceeded(short);
  }
}
