import { within } from "../durable/within.ts";
import { sayFarewell } from "./core/decide/farewell.ts";
import type { SessionState } from "./core/state/state.ts";
import type { Recorder } from "./log/journal.ts";

/** Tells the agent of a session that is about to be deleted, and waits for the answer. */
export class DeletionNotice {
  readonly #record: Recorder;
  readonly #waitMs: number;
  #pending: { readonly request: number; readonly answered: () => void } | undefined;

  constructor(record: Recorder, { farewellMs }: { readonly farewellMs: number }) {
    this.#record = record;
    this.#waitMs = farewellMs;
  }

  /** Lets the agent delete its own session. A session without a process is deleted here only. */
  async give(): Promise<void> {
    let request: number | undefined;
    this.#record((batch) => {
      request = sayFarewell(batch, "session/delete");
    });
    if (request === undefined) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pending = { request, answered: resolve };
    await within(this.#waitMs, promise);
    this.#pending = undefined;
  }

  /** The agent may have answered, or its process may have ended. */
  check({ awaitingAgent }: SessionState): void {
    if (this.#pending && !awaitingAgent[this.#pending.request]) this.#pending.answered();
  }
}
