import { removeSession, writeSession } from "../../index/session-index.ts";
import type { Listing } from "../core/events/facts/definition.ts";
import { indexEntry } from "../core/read/index-entry.ts";
import type { SessionState } from "../core/state/state.ts";

/** Keeps the session's row in the index. One write runs at a time, so that no write follows the session's removal. */
export class IndexWriter {
  readonly #index: D1Database;
  readonly #isCurrent: (state: SessionState) => boolean;
  readonly #failed: () => void;
  #writing: Promise<void> = Promise.resolve();
  /** The open permissions as of the last write that was due to them. */
  #pending: string | undefined;

  /** A state is current until its session is deleted. `failed` is called when a write has to be retried. */
  constructor(index: D1Database, isCurrent: (state: SessionState) => boolean, failed: () => void) {
    this.#index = index;
    this.#isCurrent = isCurrent;
    this.#failed = failed;
  }

  /** Whether facts listed so have to be in the index at once. People wait for permission requests. */
  isUrgent({ awaitingClient }: SessionState, listed: readonly Listing[]): boolean {
    if (listed.includes("now")) return true;
    if (!listed.includes("with-permissions")) return false;
    const open = Object.keys(awaitingClient).filter((seq) => awaitingClient[seq]?.permission);
    const changed = open.join() !== this.#pending;
    this.#pending = open.join();
    return changed;
  }

  /** Whether facts listed so change the row at all. */
  isDue(listed: readonly Listing[]): boolean {
    return listed.some((when) => when !== "never");
  }

  write(state: SessionState): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      const entry = indexEntry(state);
      if (!entry || !this.#isCurrent(state)) return;
      try {
        await writeSession(this.#index, entry);
      } catch (error) {
        console.error("index write failed", { sessionId: state.sessionId, error: String(error) });
        if (this.#isCurrent(state)) this.#failed();
      }
    });
    return this.#writing;
  }

  async remove({ sessionId, identity }: SessionState): Promise<void> {
    await this.#writing;
    if (identity) await removeSession(this.#index, { tenant: identity.tenant, sessionId });
  }
}
