import type { Caller } from "../../protocol/caller.ts";
import type { Allowance } from "../../protocol/rpc.ts";
import { Purse } from "../../tenant/client/quota-spender.ts";
import { type Exceeded, exceeded } from "../../tenant/quotas.ts";

/** The body of a request whose bytes are counted as they are read, against what its sender may send in this hour. */
export class Metered {
  readonly body: ReadableStream<Uint8Array>;
  /** Why it has ended before its end. */
  refused: Exceeded | undefined;
  readonly #env: Env;
  readonly #caller: Caller;
  readonly #purse: Purse;
  #allowance: Allowance | undefined;
  #counting: Promise<void> = Promise.resolve();

  constructor(env: Env, caller: Caller, body: ReadableStream<Uint8Array>) {
    this.#env = env;
    this.#caller = caller;
    this.#purse = new Purse(env);
    this.body = body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        transform: async (bytes, controller) => {
          this.#counting = this.#count(bytes.length);
          await this.#counting;
          controller.enqueue(bytes);
        },
      }),
    );
  }

  async #count(chars: number): Promise<void> {
    const { allowance, short } = await this.#purse.pay(this.#caller, this.#allowance, [{ chars }]);
    this.#allowance = allowance;
    if (short === undefined) return;
    this.refused = exceeded(short);
    throw new Error(this.refused.message);
  }

  /** Gives back what was not needed. */
  async close(): Promise<void> {
    const { tenant, subject } = this.#caller;
    await this.#counting.catch(() => {});
    if (!this.#allowance) return;
    try {
      await this.#env.TENANT_DO.getByName(tenant).giveBack(subject, this.#allowance);
    } catch (error) {
      // It is lost for the hour.
      console.warn("allowance not given back", { error: String(error) });
    }
  }
}
