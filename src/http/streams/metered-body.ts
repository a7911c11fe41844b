import { subjectObject } from "../../durable/objects.ts";
import type { Caller } from "../../protocol/caller.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Allowance } from "../../protocol/rpc.ts";
import type { QuotaRefusal } from "../../tenant/client/quota-refusal.ts";
import { QuotaSpender } from "../../tenant/client/quota-spender.ts";

/** A request body whose bytes count against its sender's hourly quota as they are read. */
export class MeteredBody {
  readonly body: ReadableStream<Uint8Array>;
  /** The quota that ended the body early. */
  exceeded: QuotaRefusal | undefined;
  readonly #env: Env;
  readonly #caller: Caller;
  readonly #spender: QuotaSpender;
  #allowance: Allowance | undefined;
  #counting: Promise<void> = Promise.resolve();

  constructor(env: Env, limits: Limits, caller: Caller, body: ReadableStream<Uint8Array>) {
    this.#env = env;
    this.#caller = caller;
    this.#spender = new QuotaSpender(env, limits);
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
    const { allowance, refusal } = await this.#spender.charge(this.#caller, this.#allowance, [{ chars }]);
    this.#allowance = allowance;
    if (!refusal) return;
    this.exceeded = refusal;
    throw new Error(refusal.message);
  }

  /** Returns the unused part of the allowance to the subject. */
  async close(): Promise<void> {
    const { tenant, subject } = this.#caller;
    await this.#counting.catch(() => {});
    if (!this.#allowance) return;
    try {
      await subjectObject(this.#env, tenant, subject).refundAllowance(this.#allowance);
    } catch (error) {
      // The subject gets the rest back when the next hour begins.
      console.warn("allowance not given back", { error: String(error) });
    }
  }
}
