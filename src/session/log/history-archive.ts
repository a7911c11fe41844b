import { LIMITS } from "../../protocol/limits.ts";
import { isFrame } from "../core/events/event.ts";
import type { SessionState } from "../core/state/state.ts";
import type { Journal, Recorder } from "./journal.ts";

/** A part of the log that is in the archive, as NDJSON of envelopes. Written once, never changed. */
export type Segment = { first: number; last: number; key: string; chars: number };

/** What a reader asked for has been removed from the archive. */
export class HistoryGone extends Error {
  readonly last: number;

  constructor({ first, last }: Segment) {
    super(`Events ${first} to ${last} of this session are no longer available`);
    this.last = last;
  }
}

/** Old parts of a session's log in R2, so that its object stays small while its history grows. */
export class HistoryArchive {
  readonly #bucket: R2Bucket | undefined;
  readonly #journal: Journal;
  #running: Promise<void> | undefined;

  constructor(bucket: R2Bucket | undefined, journal: Journal) {
    this.#bucket = bucket;
    this.#journal = journal;
  }

  /** Whether there is somewhere to put things and something worth putting there. */
  wanted(state: SessionState): boolean {
    return this.#bucket !== undefined && state.historyChars > LIMITS.historyChars * ARCHIVE_FROM;
  }

  /** Brings the event after `after` within reach of the readings that follow at once. */
  reach(after: number): Promise<void> | undefined {
    const segment = this.#journal.log.outOfReach(after);
    return segment && this.#fetch(segment);
  }

  /** Does the same; if what should be there is not, says so. */
  async missing(after: number): Promise<string | undefined> {
    try {
      await this.reach(after);
    } catch (error) {
      if (error instanceof HistoryGone) return error.message;
      throw error;
    }
  }

  async #fetch(segment: Segment): Promise<void> {
    const object = await this.#bucket?.get(segment.key);
    if (!object) throw new HistoryGone(segment);
    this.#journal.log.hold(segment, await object.text());
  }

  /**
   * Moves the oldest part of the log away until there is room again. `record` writes what has been done
   * together with the removal, after the copy is safe: a crash in between costs a second, equal copy.
   */
  run(state: SessionState, record: Recorder): Promise<void> {
    // A removal that was decided twice would be done twice.
    this.#running ??= this.#run(state, record).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #run(state: SessionState, record: Recorder): Promise<void> {
    while (this.#bucket && state.historyChars > LIMITS.historyChars * ARCHIVE_DOWN_TO) {
      const oldest = this.#oldest(state);
      if (!oldest) return;
      const { text, ...segment } = oldest;
      await this.#bucket.put(segment.key, text);
      if (this.#journal.state !== state) return;
      record((batch) => {
        const opening = state.identity?.request ?? 0;
        if (opening >= segment.first && opening <= segment.last)
          this.#journal.log.pin(state.sessionId, opening);
        this.#journal.log.remove(segment);
        batch.fact("gateway", "log.archived", segment);
      });
    }
  }

  async delete(): Promise<void> {
    const keys = this.#journal.log.segments().map((segment) => segment.key);
    for (let i = 0; i < keys.length; i += 1000) await this.#bucket?.delete(keys.slice(i, i + 1000));
  }

  #oldest(state: SessionState): (Segment & { text: string }) | undefined {
    const { log } = this.#journal;
    const end = log.rowEndingBy(archivableUpTo(state), LIMITS.segmentChars);
    if (end === undefined) return undefined;
    const lines: string[] = [];
    let chars = 0;
    let first = 0;
    for (const { seq, event, line } of log.envelopes(state.sessionId, log.archivedUpTo)) {
      if (seq > end) break;
      const stored = event();
      first ||= seq;
      // It has to stay at hand, and there is no room for it but in one row.
      if (seq === state.identity?.request && line.length > LIMITS.rowChars) return undefined;
      if (isFrame(stored)) chars += stored.frame.raw.length;
      lines.push(`${line}\n`);
    }
    const key = `sessions/${state.identity?.tenant}/${state.sessionId}/events/${String(first).padStart(12, "0")}.ndjson`;
    return { first, last: end, key, chars, text: lines.join("") };
  }
}

/** Shares of the allowed history: from here on it is moved away, until so much is left. */
const ARCHIVE_FROM = 0.9;
const ARCHIVE_DOWN_TO = 0.6;

/** Everything before what somebody still waits for. */
function archivableUpTo({ lastSeq, awaitingAgent, awaitingClient, queue, turn }: SessionState): number {
  const waiting = [...Object.keys(awaitingAgent), ...Object.keys(awaitingClient)].map(Number);
  const open = [...waiting, ...queue.map((item) => item.seq), ...(turn ? [turn.prompt] : [])];
  return Math.min(lastSeq, ...open.map((seq) => seq - 1));
}
