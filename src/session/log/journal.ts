import type { Tables } from "../../durable/schema.ts";
import type { Limits } from "../../protocol/limits.ts";
import { Batch } from "../core/decide/batch.ts";
import { charsOf, type FrameEvent, isFrame, type LogEvent } from "../core/events/event.ts";
import { apply } from "../core/state/fold.ts";
import type { SessionState } from "../core/state/state.ts";
import { EventLog } from "./event-log.ts";
import { Snapshots } from "./snapshots.ts";

/**
 * Turns one input into events that `decide` adds, writes them, and lets the readers of the log advance. `committed` runs
 * in between: it does what must not happen if the events cannot be written.
 */
export type Recorder = (decide: (batch: Batch) => void, committed?: () => void) => void;

/** The log and the state that it folds to. A session changes here and nowhere else. */
export class Journal {
  readonly log: EventLog;
  readonly #storage: DurableObjectStorage;
  readonly #limits: Limits;
  readonly #snapshots: Snapshots;
  #state: SessionState | undefined;
  /** The newest events. Readers that keep up read from here and not from SQLite. */
  #tail: LogEvent[] = [];

  constructor(storage: DurableObjectStorage, tables: Tables, limits: Limits) {
    this.#storage = storage;
    this.#limits = limits;
    this.log = new EventLog(storage.sql, limits.rowChars);
    this.#snapshots = new Snapshots(storage.sql, limits);
    if (tables.exist) this.#state = this.#snapshots.load();
  }

  /**
   * Folds the events after the snapshot into the state, which must precede any other use. False: these events begin in
   * the archive, because no snapshot includes it. The caller fetches the segment and calls again.
   */
  catchUp(): boolean {
    const state = this.#state;
    for (;;) {
      if (!state) return true;
      if (this.log.missingSegment(state.lastSeq)) return false;
      const events = this.log.read(state.lastSeq, this.#limits.deliverChars);
      if (events.length === 0) return true;
      for (const event of events) apply(state, event);
    }
  }

  /** Saves the state that `catchUp` has folded from the archive: the next load needs no archive. */
  saveFolded(): void {
    if (this.#state) this.#snapshots.saveFolded(this.#state);
  }

  /** Whether events may be archived: a snapshot has to include them. */
  canArchive(state: SessionState): boolean {
    return this.#snapshots.canSave(state);
  }

  /** Undefined while no session exists here: a request for an unknown id leaves no trace. */
  get state(): SessionState | undefined {
    return this.#state;
  }

  /** The state, where a session is known to exist. */
  requireState(): SessionState {
    if (!this.#state) throw new Error("This object holds no session");
    return this.#state;
  }

  create(sessionId: string): void {
    this.#state = this.#snapshots.create(sessionId);
  }

  /** Makes a session of a log that an import has written and that folds to `state`. */
  adopt(state: SessionState): void {
    this.#snapshots.create(state.sessionId);
    this.#state = state;
  }

  /** The session was deleted. */
  forget(): void {
    this.#state = undefined;
    this.#tail = [];
  }

  /**
   * Lets `decide` add events, and writes them all at once. After an exception nothing is written, but the state includes
   * events that the log lacks: the caller must `restore` it.
   */
  record(decide: (batch: Batch) => void): readonly LogEvent[] {
    const state = this.requireState();
    const batch = new Batch(state, Date.now(), this.#limits, (seq) => this.eventAt(seq));
    this.#storage.transactionSync(() => {
      decide(batch);
      if (batch.events.length === 0) return;
      this.log.append(batch.events);
      this.#snapshots.save(state, this.log.archivedUpTo);
    });
    for (const event of batch.events) this.#tail.push(event);
    return batch.events;
  }

  /** Makes the state what the log says. False: that needs the archive, so only a fresh start can do it. */
  restore(): boolean {
    const state = this.requireState();
    this.log.refresh();
    // Memory ends where this object last wrote. If storage goes on, readers must get the rest from there.
    this.#tail = [];
    // Others hold the state, so the object stays.
    Object.assign(state, this.#snapshots.load());
    return this.catchUp();
  }

  /** Events after `seq` of about `maxChars` together, at least one if there is one; from memory if it has them. */
  after(seq: number, maxChars: number): LogEvent[] {
    if (seq >= (this.#state?.lastSeq ?? 0)) return [];
    const first = this.#tail[0]?.seq;
    if (first === undefined || seq + 1 < first) return this.log.read(seq, maxChars);
    const page: LogEvent[] = [];
    for (let chars = 0, i = seq + 1 - first; i < this.#tail.length; i += 1) {
      const event = this.#tail[i] as LogEvent;
      chars += charsOf(event);
      if (page.length > 0 && chars > maxChars) break;
      page.push(event);
    }
    return page;
  }

  eventAt(seq: number): LogEvent | undefined {
    return seq <= this.log.archivedUpTo ? this.log.pinnedEvent(seq) : this.after(seq - 1, 0)[0];
  }

  frameAt(seq: number): FrameEvent | undefined {
    const event = this.eventAt(seq);
    return event && isFrame(event) ? event : undefined;
  }

  /** Drops events up to `seq` from memory, and more if memory holds too much. Slower readers read from storage. */
  trim(seq: number): void {
    let dropped = this.#tail.length;
    for (let chars = 0; dropped > 0; dropped -= 1) {
      const event = this.#tail[dropped - 1] as LogEvent;
      chars += charsOf(event);
      if (event.seq <= seq || chars > this.#limits.tailChars) break;
    }
    if (dropped > 0) this.#tail = this.#tail.slice(dropped);
  }
}
