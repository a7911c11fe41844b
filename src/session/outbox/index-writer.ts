import { removeSession, writeSession } from "../../index/session-index.ts";
import type { Listing } from "../core/events/facts/definition.ts";
import { indexEntry } from "../core/read/index-entry.ts";
import type { SessionState } from "../core/state/state.ts";

/** Keeps a session's line in the index. One write at a time, so that none comes after the session's removal. */
export class IndexWriter {
  readonly #index: D1Database;
  readonly #isCurrent: (state: SessionState) => boolean;
  readonly #failed: () => void;
  #writing: Promise<void> = Promise.resolve();
  /** Permissions that were open when the index last heard of them. */
  #pending: string | undefined;

  /** A state is not current any more when its session was deleted. `failed`: the write is to be tried again. */
  constructor(index: D1Database, isCurrent: (state: SessionState) => boolean, failed: () => void) {
    this.#index = index;
    this.#isCurrent = isCurrent;
    this.#failed = failed;
  }

  /** Whether these events must be in the index at once: people wait for permissions. */
  isUrgent({ awaitingClient }: SessionState, listed: readonly Listing[]): boolean {
    if (listed.includes("now")) return true;
    if (!listed.includes("with-permissions")) return false;
    const open = Object.keys(awaitingClient).filter((seq) => awaitingClient[seq]?.permission);
    const changed = open.join() !== this.#pending;
    this.#pending = open.join();
    return changed;
  }

  /** Whether they change the line at all. */
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
