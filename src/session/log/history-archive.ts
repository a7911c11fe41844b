import type { Limits } from "../../protocol/limits.ts";
import { historyCharsOf, isFrame, type LogEvent } from "../core/events/event.ts";
import type { SessionState } from "../core/state/state.ts";
import { archiveKey, readArchive, writeArchive } from "./archive-files.ts";
import type { ArchivedSegment } from "./event-log.ts";
import { HistoryGone } from "./history-gone.ts";
import type { Journal, Recorder } from "./journal.ts";

/**
 * The oldest part of a session's log in R2, so that the session's object stays small while its history grows; the whole
 * log of a session that nobody has used for long.
 */
export class HistoryArchive {
  readonly #bucket: R2Bucket | undefined;
  readonly #journal: Journal;
  readonly #limits: Limits;
  readonly #fetching = new Map<string, Promise<string>>();
  #archiving: Promise<void> | undefined;

  /** Without a bucket nothing is archived. */
  constructor(bucket: R2Bucket | undefined, journal: Journal, limits: Limits) {
    this.#bucket = bucket;
    this.#journal = journal;
    this.#limits = limits;
  }

  get isAvailable(): boolean {
    return this.#bucket !== undefined;
  }

  /** Whether the log has grown enough for its oldest part to be archived. */
  isDue(state: SessionState): boolean {
    return this.#bucket !== undefined && state.historyChars > this.#limits.historyChars * ARCHIVE_FROM;
  }

  /**
   * Calls `use` while the event after `after` is readable: at once, or after the segment that has the event was fetched.
   * No await may come between holding a segment and reading it, because readers of other segments replace the held one.
   * Rejects with `HistoryGone`.
   */
  read<T>(after: number, use: () => T): T | Promise<T> {
    const segment = this.#journal.log.missingSegment(after);
    return segment ? this.#readSegment(segment, use) : use();
  }

  /** Folds a log whose beginning is in the archive, when no usable snapshot exists. */
  async replay(): Promise<void> {
    const journal = this.#journal;
    while (!(await this.read(journal.state?.lastSeq ?? 0, () => journal.catchUp())));
    journal.saveFolded();
  }

  /** A single event; undefined if the archive has lost it. */
  async eventAt(seq: number): Promise<LogEvent | undefined> {
    try {
      return await this.read(seq - 1, () => this.#journal.log.read(seq - 1, 0)[0]);
    } catch (error) {
      if (error instanceof HistoryGone) return undefined;
      throw error;
    }
  }

  async #readSegment<T>(segment: ArchivedSegment, use: () => T): Promise<T> {
    const text = await this.#fetch(segment);
    this.#journal.log.hold(segment, text);
    return use();
  }

  /** The text of a segment. Readers that want a segment at the same time share one request. */
  #fetch(segment: ArchivedSegment): Promise<string> {
    const { key } = segment;
    const underWay = this.#fetching.get(key);
    if (underWay) return underWay;
    const fetching = this.#textOf(segment).finally(() => this.#fetching.delete(key));
    this.#fetching.set(key, fetching);
    return fetching;
  }

  async #textOf(segment: ArchivedSegment): Promise<string> {
    const text = this.#bucket && (await readArchive(this.#bucket, segment.key));
    if (text === undefined) throw new HistoryGone(segment);
    return text;
  }

  /** Archives the oldest part of the log until enough room is left. */
  archiveOldest(state: SessionState, record: Recorder): Promise<void> {
    const enough = this.#limits.historyChars * ARCHIVE_DOWN_TO;
    return this.#archiveWhile(state, record, () => state.historyChars > enough);
  }

  /** Archives the whole log of a session at rest. The object keeps the state, and the events that say so. */
  archiveAll(state: SessionState, record: Recorder): Promise<void> {
    const { lastSeq } = state;
    return this.#archiveWhile(state, record, () => this.#journal.log.archivedUpTo < lastSeq, lastSeq);
  }

  /** Two concurrent runs would remove the same segment twice, so the second one waits for the first one. */
  async #archiveWhile(...run: [SessionState, Recorder, () => boolean, number?]): Promise<void> {
    while (this.#archiving) await this.#archiving;
    this.#archiving = this.#archive(...run).finally(() => {
      this.#archiving = undefined;
    });
    return this.#archiving;
  }

  /**
   * The fact and the removal of the rows commit together, after the copy was read back: a crash in between costs a
   * second, equal copy.
   */
  async #archive(
    state: SessionState,
    record: Recorder,
    isWanted: () => boolean,
    upTo = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    const { log } = this.#journal;
    while (this.#bucket && isWanted()) {
      const oldest = this.#journal.canArchive(state) ? this.#oldest(state, upTo) : undefined;
      if (!oldest) return;
      const { text, ...segment } = oldest;
      await writeArchive(this.#bucket, segment.key, text);
      if (this.#journal.state !== state) return;
      record((batch) => {
        for (const seq of neededAtHand(state))
          if (seq >= segment.first && seq <= segment.last) log.pin(state.sessionId, seq);
        log.removeArchived(segment);
        batch.fact("gateway", "log.archived", segment);
      });
    }
  }

  /** Settles when no file is being written. */
  async idle(): Promise<void> {
    await this.#archiving?.catch(() => {});
  }

  /** The segment to archive next, with its text. */
  #oldest(state: SessionState, upTo: number): (ArchivedSegment & { text: string }) | undefined {
    const { log } = this.#journal;
    const { lastSeq, identity, sessionId } = state;
    const last = Math.min(archivableUpTo(state), upTo);
    const end = log.oldestRowsEnd(last, lastSeq, this.#limits.segmentChars);
    if (end === undefined || !identity) return undefined;
    const lines: string[] = [];
    let chars = 0;
    let first = 0;
    for (const { seq, event, line } of log.envelopes(sessionId, log.archivedUpTo)) {
      if (seq > end) break;
      const stored = event();
      first ||= seq;
      // The opening request will be pinned, and a pinned event has one row only.
      if (seq === identity.request && line.length > this.#limits.rowChars) return undefined;
      if (isFrame(stored)) chars += historyCharsOf(stored);
      lines.push(`${line}\n`);
    }
    const key = archiveKey(identity.tenant, sessionId, first, end);
    return { first, last: end, key, chars, text: lines.join("") };
  }
}

/** Shares of the allowed history: archiving begins above the first one and ends below the second one. */
const ARCHIVE_FROM = 0.9;
const ARCHIVE_DOWN_TO = 0.6;

/** The events of the past that the session needs: its opening, its login, long lists, answers to keyed prompts. */
function neededAtHand({ identity, brought, login, prompts, report }: SessionState): number[] {
  const lists = [report.modes?.available, report.models?.available, report.configOptions];
  return [
    lists.flatMap((list) => list?.seq ?? []),
    identity?.request ?? [],
    Object.values(brought ?? {}),
    login ?? [],
    prompts.flatMap(({ answer }) => answer ?? []),
  ].flat();
}

/** The last event before any request, queued prompt or turn that is still open. */
function archivableUpTo({ lastSeq, awaitingAgent, awaitingClient, queue, turn }: SessionState): number {
  const waiting = [...Object.keys(awaitingAgent), ...Object.keys(awaitingClient)].map(Number);
  const open = [...waiting, ...queue.map((item) => item.seq), ...(turn ? [turn.prompt] : [])];
  return Math.min(lastSeq, ...open.map((seq) => seq - 1));
}
