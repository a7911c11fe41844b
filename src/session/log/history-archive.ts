import type { Limits } from "../../protocol/limits.ts";
import { isFrame } from "../core/events/event.ts";
import type { SessionState } from "../core/state/state.ts";
import type { ArchivedSegment } from "./event-log.ts";
import { HistoryGone } from "./history-gone.ts";
import type { Journal, Recorder } from "./journal.ts";

/** The oldest part of a session's log in R2, so that the session's object stays small while its history grows. */
export class HistoryArchive {
  readonly #bucket: R2Bucket | undefined;
  readonly #journal: Journal;
  readonly #limits: Limits;
  #archiving: Promise<void> | undefined;

  /** Without a bucket nothing is archived. */
  constructor(bucket: R2Bucket | undefined, journal: Journal, limits: Limits) {
    this.#bucket = bucket;
    this.#journal = journal;
    this.#limits = limits;
  }

  /** Whether the log has grown enough for its oldest part to be archived. */
  isDue(state: SessionState): boolean {
    return this.#bucket !== undefined && state.historyChars > this.#limits.historyChars * ARCHIVE_FROM;
  }

  /**
   * Makes the event after `after` readable. Undefined: it is readable already. The event stays readable only until the
   * next await, because another reader may replace the held segment. Rejects with `HistoryGone`.
   */
  reach(after: number): Promise<void> | undefined {
    const segment = this.#journal.log.missingSegment(after);
    return segment && this.#fetch(segment);
  }

  async #fetch(segment: ArchivedSegment): Promise<void> {
    const object = await this.#bucket?.get(segment.key);
    if (!object) throw new HistoryGone(segment);
    this.#journal.log.hold(segment, await object.text());
  }

  /**
   * Archives the oldest part of the log until enough room is left. The fact and the removal of the rows commit together,
   * after the copy is safe: a crash in between costs a second, equal copy.
   */
  archiveOldest(state: SessionState, record: Recorder): Promise<void> {
    // Two concurrent runs would remove the same segment twice.
    this.#archiving ??= this.#archive(state, record).finally(() => {
      this.#archiving = undefined;
    });
    return this.#archiving;
  }

  async #archive(state: SessionState, record: Recorder): Promise<void> {
    while (this.#bucket && state.historyChars > this.#limits.historyChars * ARCHIVE_DOWN_TO) {
      const oldest = this.#oldest(state);
      if (!oldest) return;
      const { text, ...segment } = oldest;
      await this.#bucket.put(segment.key, text);
      if (this.#journal.state !== state) return;
      record((batch) => {
        const opening = state.identity?.request ?? 0;
        if (opening >= segment.first && opening <= segment.last)
          this.#journal.log.pin(state.sessionId, opening);
        this.#journal.log.removeArchived(segment);
        batch.fact("gateway", "log.archived", segment);
      });
    }
  }

  async delete(): Promise<void> {
    const keys = this.#journal.log.segments().map((segment) => segment.key);
    for (let i = 0; i < keys.length; i += KEYS_PER_DELETE)
      await this.#bucket?.delete(keys.slice(i, i + KEYS_PER_DELETE));
  }

  /** The segment to archive next, with its text. */
  #oldest(state: SessionState): (ArchivedSegment & { text: string }) | undefined {
    const { log } = this.#journal;
    const end = log.oldestRowsEnd(archivableUpTo(state), this.#limits.segmentChars);
    if (end === undefined) return undefined;
    const lines: string[] = [];
    let chars = 0;
    let first = 0;
    for (const { seq, event, line } of log.envelopes(state.sessionId, log.archivedUpTo)) {
      if (seq > end) break;
      const stored = event();
      first ||= seq;
      // The opening request will be pinned, and a pinned event has one row only.
      if (seq === state.identity?.request && line.length > this.#limits.rowChars) return undefined;
      if (isFrame(stored)) chars += stored.frame.raw.length;
      lines.push(`${line}\n`);
    }
    const key = `sessions/${state.identity?.tenant}/${state.sessionId}/events/${String(first).padStart(12, "0")}.ndjson`;
    return { first, last: end, key, chars, text: lines.join("") };
  }
}

/** Shares of the allowed history: archiving begins above the first one and ends below the second one. */
const ARCHIVE_FROM = 0.9;
const ARCHIVE_DOWN_TO = 0.6;

/** R2 deletes at most so many objects in one call. */
const KEYS_PER_DELETE = 1000;

/** The last event before any request, queued prompt or turn that is still open. */
function archivableUpTo({ lastSeq, awaitingAgent, awaitingClient, queue, turn }: SessionState): number {
  const waiting = [...Object.keys(awaitingAgent), ...Object.keys(awaitingClient)].map(Number);
  const open = [...waiting, ...queue.map((item) => item.seq), ...(turn ? [turn.prompt] : [])];
  return Math.min(lastSeq, ...open.map((seq) => seq - 1));
}
