import type { Tables } from "../../durable/schema.ts";
import type { Limits } from "../../protocol/limits.ts";
import { Batch } from "../core/decide/batch.ts";
import { type FrameEvent, isFrame, type LogEvent } from "../core/events/event.ts";
import { apply } from "../core/state/fold.ts";
import type { SessionState } from "../core/state/state.ts";
import { EventLog } from "./event-log.ts";
import { Snapshots } from "./snapshots.ts";

/** Turns one input into events that `decide` adds, writes them, and lets the readers of the log advance. */
export type Recorder = (decide: (batch: Batch) => void) => void;

/** The log and the state that it folds to. A session changes here and nowhere else. */
export class Journal {
  readonly log: EventLog;
  readonly #limits: Limits;
  readonly #snapshots: Snapshots;
  #state: SessionState | undefined;
  /** The newest events. Readers that keep up read from here and not from SQLite. */
  #tail: LogEvent[] = [];

  constructor(sql: SqlStorage, tables: Tables, limits: Limits) {
    this.#limits = limits;
    this.log = new EventLog(sql, limits.rowChars);
    this.#snapshots = new Snapshots(sql, limits);
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
   * Lets `decide` add events, and writes them all at once. After an exception the state may include events that the log
   * lacks, so the caller must load the session again from storage.
   */
  record(decide: (batch: Batch) => void): readonly LogEvent[] {
    const state = this.requireState();
    const batch = new Batch(state, Date.now(), this.#limits, (seq) => this.eventAt(seq));
    decide(batch);
    if (batch.events.length === 0) return batch.events;
    this.log.append(batch.events);
    this.#snapshots.save(state);
    for (const event of batch.events) this.#tail.push(event);
    return batch.events;
  }

  /** Events after `seq` of about `maxChars` together, at least one if there is one; from memory if it has them. */
  after(seq: number, maxChars: number): LogEvent[] {
    if (seq >= (this.#state?.lastSeq ?? 0)) return [];
    const first = this.#tail[0]?.seq;
    if (first === undefined || seq + 1 < first) return this.log.read(seq, maxChars);
    const page: LogEvent[] = [];
    for (let chars = 0, i = seq + 1 - first; i < this.#tail.length; i += 1) {
      const event = this.#tail[i] as LogEvent;
      chars += sizeOf(event);
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
      chars += sizeOf(event);
      if (event.seq <= seq || chars > this.#limits.tailChars) break;
    }
    if (dropped > 0) this.#tail = this.#tail.slice(dropped);
  }
}

/** The size of an event in memory, in characters. Facts are small and not worth measuring. */
function sizeOf(event: LogEvent): number {
  return isFrame(event) ? event.frame.raw.length : FACT_CHARS;
}

const FACT_CHARS = 200;
