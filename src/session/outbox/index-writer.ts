import { removeSession, rewriteSession, writeSession } from "../../index/session-index.ts";
import type { Listing } from "../core/events/facts/definition.ts";
import { indexEntry } from "../core/read/index-entry.ts";
import type { RequestOfAgent, SessionState } from "../core/state/state.ts";

/** Keeps the session's row in the index. One write runs at a time, so that no write follows the session's removal. */
export class IndexWriter {
  readonly #index: D1Database;
  readonly #isCurrent: (state: SessionState) => boolean;
  readonly #isListed: () => boolean;
  readonly #enroll: (state: SessionState) => Promise<void>;
  readonly #retryLater: () => void;
  #writing: Promise<void> = Promise.resolve();
  /** The open permission requests and questions as of the last write that was due to them. */
  #pending: string | undefined;

  /**
   * A state is current until its session is deleted. A revoked session is not listed. `enroll` makes sure that the
   * workspace knows the session. `retryLater` has to call `write` again.
   */
  constructor(
    index: D1Database,
    isCurrent: (state: SessionState) => boolean,
    isListed: () => boolean,
    enroll: (state: SessionState) => Promise<void>,
    retryLater: () => void,
  ) {
    this.#index = index;
    this.#isCurrent = isCurrent;
    this.#isListed = isListed;
    this.#enroll = enroll;
    this.#retryLater = retryLater;
  }

  /** Whether facts listed so have to be in the index at once. People wait for permission requests and questions. */
  isUrgent({ awaitingClient }: SessionState, listed: readonly Listing[]): boolean {
    if (listed.includes("now")) return true;
    if (!listed.includes("with-requests")) return false;
    const open = Object.keys(awaitingClient).filter((seq) => isForPeople(awaitingClient[seq]));
    const changed = open.join() !== this.#pending;
    this.#pending = open.join();
    return changed;
  }

  /** Whether facts listed so change the row at all. */
  isDue(listed: readonly Listing[]): boolean {
    return listed.some((when) => when !== "never");
  }

  /**
   * Writes the session's row, or takes it off the index if the session is not listed, and enrolls the session. Rejects if
   * either fails: a deadline that calls this repeats it.
   */
  write(state: SessionState): Promise<void> {
    const written = this.#writing.then(async () => {
      const entry = indexEntry(state);
      if (!entry || !this.#isCurrent(state)) return;
      await (this.#isListed() ? writeSession(this.#index, entry) : removeSession(this.#index, entry));
      // Lists do not wait for the workspace, which may be out of reach or of the release before.
      if (this.#isCurrent(state)) await this.#enroll(state);
    });
    this.#writing = written.catch(() => {});
    return written;
  }

  /** Writes the row now, or later if that fails. Never rejects. */
  async writeOrRetry(state: SessionState): Promise<void> {
    try {
      await this.write(state);
    } catch (error) {
      console.error("index write failed", { sessionId: state.sessionId, error: String(error) });
      if (this.#isCurrent(state)) this.#retryLater();
    }
  }

  /** Writes the row whatever the index has. Throws if the index cannot be written. */
  async rewrite(state: SessionState): Promise<void> {
    const rewriting = this.#writing.then(async () => {
      const entry = indexEntry(state, Number.POSITIVE_INFINITY);
      if (!entry || !this.#isCurrent(state)) return;
      await (this.#isListed() ? rewriteSession(this.#index, entry) : removeSession(this.#index, entry));
    });
    this.#writing = rewriting.catch(() => {});
    await rewriting;
  }

  /** Settles when no write is under way. */
  idle(): Promise<void> {
    return this.#writing;
  }
}

function isForPeople(request: RequestOfAgent | undefined): boolean {
  return request?.permission !== undefined || request?.question !== undefined;
}
