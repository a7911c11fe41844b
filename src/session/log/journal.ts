import type { Tables } from "../../durable/schema.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { Batch } from "../core/decide/batch.ts";
import { type FrameEvent, isFrame, type LogEvent } from "../core/events/event.ts";
import { apply } from "../core/state/fold.ts";
import type { SessionState } from "../core/state/state.ts";
import { EventLog } from "./event-log.ts";
import { Snapshots } from "./snapshots.ts";

/** Turns one input into events that `decide` adds, writes them, and lets the readers of the log advance. */
export type Recorder = (decide: (batch: Batch) => void) => void;

/** The log with the state it folds to: the one place where a session changes. */
export class Journal {
  readonly log: EventLog;
  readonly #snapshots: Snapshots;
  #state: SessionState | undefined;
  /** The newest events, so that readers who keep up do not go through SQLite. */
  #tail: LogEvent[] = [];

  constructor(sql: SqlStorage, tables: Tables) {
    this.log = new EventLog(sql);
    this.#snapshots = new Snapshots(sql);
    if (tables.exist) this.#state = this.#snapshots.load();
  }

  /**
   * Folds the rest of the log into the state, which has to be done before anything else. False: the rest begins in the archive, because there is no
   * snapshot that knows it; the caller brings it within reach and calls again.
   */
  catchUp(): boolean {
    const state = this.#state;
    for (;;) {
      if (!state) return true;
      if (this.log.outOfReach(state.lastSeq)) return false;
      const events = this.log.read(state.lastSeq, LIMITS.deliverChars);
      if (events.length === 0) return true;
      for (const event of events) apply(state, event);
    }
  }

  /** Undefined as long as no session has been made here: asking for an unknown id leaves no trace. */
  get state(): SessionState | undefined {
    return this.#state;
  }

  /** The state, where a session is known to exist. */
  requireState(): SessionState {
    if (!this.#state) throw new Error("There is no session here");
    return this.#state;
  }

  create(sessionId: string): void {
    this.#state = this.#snapshots.create(sessionId);
  }

  /** Makes a session of a log that was written beforehand and folds to the given state. */
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
   * Lets `decide` add events and writes them all at once. If that throws, the state has folded in what the
   * log does not have: the caller must start over from storage.
   */
  record(decide: (batch: Batch) => void): readonly LogEvent[] {
    const state = this.requireState();
    const batch = new Batch(state, Date.now(), LIMITS, (seq) => this.eventAt(seq));
    decide(batch);
    if (batch.events.length === 0) return batch.events;
    this.log.append(batch.events);
    this.#snapshots.save(state);
    for (const event of batch.events) this.#tail.push(event);
    return batch.events;
  }

  /** Events after `seq` up to about `maxChars`, at least one if there is one; from memory when they are there. */
  after(seq: number, maxChars: number): LogEvent[] {
    if (seq >= (this.#state?.lastSeq ?? 0)) return [];
    const first = this.#tail[0]?.seq;
    if (first === undefined || seq + 1 < first) return this.log.read(seq, maxChars);
    const page: LogEvent[] = [];
    for (let chars = 0, i = seq + 1 - first; i < this.#tail.length; i += 1) {
      const event = this.#tail[i] as LogEvent;
      chars += weight(event);
      if (page.length > 0 && chars > maxChars) break;
      page.push(event);
    }
    return page;
  }

  eventAt(seq: number): LogEvent | undefined {
    return seq <= this.log.archivedUpTo ? this.log.pinned(seq) : this.after(seq - 1, 0)[0];
  }

  frameAt(seq: number): FrameEvent | undefined {
    const event = this.eventAt(seq);
    return event && isFrame(event) ? event : undefined;
  }

  /** Lets go of what everyone has read, up to `seq`, and of more if it grows; late readers go to storage. */
  trim(seq: number): void {
    let keep = this.#tail.length;
    for (let chars = 0; keep > 0; keep -= 1) {
      const event = this.#tail[keep - 1] as LogEvent;
      chars += weight(event);
      if (event.seq <= seq || chars > LIMITS.tailChars) break;
    }
    if (keep > 0) this.#tail = this.#tail.slice(keep);
  }
}

function weight(event: LogEvent): number {
  return isFrame(event) ? event.frame.raw.length : 200;
}
