import type { RpcError } from "../protocol/errors.ts";
import type { Frame } from "../protocol/frame.ts";
import type { Limits } from "../protocol/limits.ts";
import { rpcErrorOf } from "../protocol/refusal.ts";
import { type Charge, QuotaSpender } from "../tenant/client/quota-spender.ts";
import type { Client } from "./client.ts";
import { costOf } from "./message-cost.ts";

type QuotaError = RpcError & { data: { retryAfterMs: number } };

/** Counts a client's messages against the quotas of its subject. */
export class Admission {
  readonly #client: Client;
  readonly #limits: Limits;
  readonly #spender: QuotaSpender;

  constructor(env: Env, client: Client, limits: Limits) {
    this.#client = client;
    this.#limits = limits;
    this.#spender = new QuotaSpender(env, limits);
  }

  /**
   * Counts one message, whether it is a frame or not. Resolves to the quota that it exceeds, if any; synchronously as
   * long as the client's allowance suffices. `number` is the client's own number of the message.
   */
  admit(
    chars: number,
    frame: Frame | undefined,
    number: number | undefined,
  ): QuotaError | undefined | Promise<QuotaError | undefined> {
    const { caller, allowance } = this.#client.state;
    const charged = this.#spender.charge(caller, allowance, costOf(chars, frame, this.#limits.smallChars));
    return charged instanceof Promise
      ? charged.then((charge) => this.#count(charge, number))
      : this.#count(charged, number);
  }

  /** One write for both the number of the message and the rest of the allowance. */
  #count({ allowance, refusal }: Charge, number: number | undefined): QuotaError | undefined {
    const sent = number ?? this.#client.state.sent + 1;
    this.#client.change({ sent, ...(allowance && { allowance }) });
    return refusal && { ...rpcErrorOf(refusal), data: { retryAfterMs: refusal.retryAfterMs } };
  }
}
