import { ErrorCode } from "../protocol/errors.ts";
import type { Frame } from "../protocol/frame.ts";
import type { Limits } from "../protocol/limits.ts";
import { rpcErrorOf } from "../protocol/refusal.ts";
import { type Charge, type Cost, QuotaSpender } from "../tenant/client/quota-spender.ts";
import type { Client } from "./client.ts";
import type { Admittance, QuotaError } from "./intake.ts";
import { costOf } from "./message-cost.ts";

/** Counts a client's messages against the quotas of its subject. */
export class Admission {
  readonly #client: Client;
  readonly #limits: Limits;
  readonly #spender: QuotaSpender;
  /** Characters of messages that went on while nobody could count them. The next message pays for them. */
  #uncounted = 0;

  constructor(env: Env, client: Client, limits: Limits) {
    this.#client = client;
    this.#limits = limits;
    this.#spender = new QuotaSpender(env, limits);
  }

  /**
   * Counts one message, whether it is a frame or not; synchronously as long as the client's allowance suffices. `number`
   * is the client's own number of the message.
   */
  admit(
    chars: number,
    frame: Frame | undefined,
    number: number | undefined,
  ): Admittance | Promise<Admittance> {
    const { caller, allowance } = this.#client.state;
    const cost = costOf(chars, frame, this.#limits.smallChars);
    const charged = this.#spender.charge(caller, allowance, this.#withUncounted(cost));
    return charged instanceof Promise
      ? charged.then(
          (charge) => this.#count(charge, number),
          (error: unknown) => this.#countLater(error, chars, frame, number),
        )
      : this.#count(charged, number);
  }

  #withUncounted(cost: Cost): Cost {
    const more = this.#uncounted;
    if (more === 0) return cost;
    const [first, ...others] = cost.map(({ chars, reserve, ...rest }) => ({
      ...rest,
      ...(chars !== undefined && { chars: chars + more }),
      ...(reserve !== undefined && { reserve: reserve + more }),
    }));
    return first ? [first, ...others] : cost;
  }

  /**
   * The message has its number, and costs nothing yet. A request is refused by the intake and can be repeated; other
   * messages go on, up to a bound.
   */
  #countLater(
    error: unknown,
    chars: number,
    frame: Frame | undefined,
    number: number | undefined,
  ): Admittance {
    console.error("quota unknown", { error: String(error) });
    this.#client.change({ sent: number ?? this.#client.state.sent + 1 });
    if (frame?.kind === "request") return "unknown";
    if (this.#uncounted + chars > this.#limits.uncountedChars) return UNCOUNTABLE;
    this.#uncounted += chars;
    return "unknown";
  }

  /** One write for both the number of the message and the rest of the allowance. */
  #count({ allowance, refusal }: Charge, number: number | undefined): QuotaError | undefined {
    const sent = number ?? this.#client.state.sent + 1;
    this.#client.change({ sent, ...(allowance && { allowance }) });
    if (!refusal) this.#uncounted = 0;
    return refusal && { ...rpcErrorOf(refusal), data: { retryAfterMs: refusal.retryAfterMs } };
  }
}

const UNCOUNTABLE: QuotaError = {
  code: ErrorCode.tooMany,
  message: "The quota could not be checked: try again",
  data: { retryAfterMs: 1000 },
};
