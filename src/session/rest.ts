import type { Limits } from "../protocol/limits.ts";
import type { SessionState } from "./core/state/state.ts";
import type { Recorder } from "./log/journal.ts";
import type { SessionParts } from "./session-parts.ts";

type Parts = Pick<SessionParts, "archive" | "deadlines">;

/**
 * A session at rest: nobody has used it for `archiveAfterMs`, and no process serves it. Its whole log then goes to the
 * archive.
 *
 * The deadline is set when the session loses its process, and not moved while the session is used: a deadline that
 * comes too early sets the next one. So a turn costs no row.
 */
export class Rest {
  readonly #parts: Parts;
  readonly #limits: Pick<Limits, "archiveAfterMs">;
  readonly #record: Recorder;

  constructor(parts: Parts, limits: Pick<Limits, "archiveAfterMs">, record: Recorder) {
    this.#parts = parts;
    this.#limits = limits;
    this.#record = record;
  }

  /** The session may be at rest from now on. */
  plan(): void {
    const { archive, deadlines } = this.#parts;
    if (archive.isAvailable && this.#limits.archiveAfterMs > 0)
      deadlines.setUnlessSet("rest", Date.now() + this.#limits.archiveAfterMs);
  }

  /** The deadline has come. */
  async check(state: SessionState): Promise<void> {
    const { archive, deadlines } = this.#parts;
    const { archiveAfterMs } = this.#limits;
    if (archiveAfterMs === 0) return;
    const [now, due] = [Date.now(), state.activeAt + archiveAfterMs];
    if (isAtRest(state) && due <= now) return archive.archiveAll(state, this.#record);
    // A session that waits for a person or a host is asked again later.
    deadlines.set("rest", due > now ? due : now + archiveAfterMs);
  }
}

function isAtRest({ run, agent, turn, queue, awaitingAgent, awaitingClient }: SessionState): boolean {
  const isIdle = run === null && agent !== "starting" && turn === null && queue.length === 0;
  return isIdle && isEmpty(awaitingAgent) && isEmpty(awaitingClient);
}

function isEmpty(requests: Readonly<Record<string, unknown>>): boolean {
  return Object.keys(requests).length === 0;
}
