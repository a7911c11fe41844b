import { newUlid } from "../../durable/new-id.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import type { EventsPage } from "../../protocol/rpc.ts";
import { RPC_VERSION } from "../../protocol/versions.ts";
import { eventIdPrefix, type LogEvent } from "../core/events/event.ts";
import { type LogView, withPseudonyms } from "../core/read/pseudonyms.ts";
import { redacted, redactedLine } from "../core/read/redaction/redaction.ts";
import {
  type Envelope,
  eventInLine,
  eventsInRow,
  type NewRow,
  type Row,
  rowsOf,
  type StoredEvent,
} from "./row-format.ts";

/** A part of the log in the history archive, as NDJSON of envelopes. Its object is written once and never changed. */
export type ArchivedSegment = { first: number; last: number; key: string; chars: number };

/**
 * The append-only log of one session in SQLite, in the form of `row-format.ts`. A batch commits as one. Old events move
 * to the history archive; one archived segment at a time is held in memory for readers.
 */
export class EventLog {
  readonly #sql: SqlStorage;
  readonly #rowChars: number;
  #archivedUpTo: number | undefined;
  #held: HeldSegment | undefined;

  /** `rowChars`: the longest text in one row. */
  constructor(sql: SqlStorage, rowChars: number) {
    this.#sql = sql;
    this.#rowChars = rowChars;
  }

  /** Writes a batch. Its events continue the numbers of the log without a gap. */
  append(events: readonly LogEvent[]): void {
    for (const row of rowsOf(events, this.#rowChars)) this.#write(eventIdPrefix(newUlid(row.at)), row);
  }

  /** Writes one row of imported events, which keep their ids: `ids` followed by the index in the row. */
  appendRow(ids: string, row: NewRow): void {
    this.#write(ids, row);
  }

  /** Events after `after` of about `maxChars` together, at least one if there is one. */
  read(after: number, maxChars: number): LogEvent[] {
    const events: LogEvent[] = [];
    let chars = 0;
    for (const { event, size } of this.#eventsAfter(after)) {
      if (events.length > 0 && chars + size > maxChars) break;
      chars += size;
      events.push(event());
    }
    return events;
  }

  /** A page of envelopes after `after`, one per line, at least one if there is one. */
  readEnvelopes(
    sessionId: string,
    after: number,
    maxChars: number,
    maxEvents: number,
    view: LogView = {},
  ): EventsPage {
    let text = "";
    let last = after;
    let count = 0;
    for (const { seq, line } of this.envelopes(sessionId, after, view)) {
      if (count > 0 && (text.length + line.length > maxChars || count >= maxEvents)) break;
      text += `${line}\n`;
      last = seq;
      count += 1;
    }
    return { v: RPC_VERSION, text, last, count };
  }

  /** Envelopes after `after`. The generator reads from an open SQLite cursor, so it must not be kept across an await. */
  *envelopes(
    sessionId: string,
    after: number,
    { redact, pseudonym, personName }: LogView = {},
  ): Generator<Envelope> {
    for (const { seq, event, line } of this.#eventsAfter(after)) {
      const whole = line(sessionId);
      const text = redact ? redactedLine(whole, event(), personName) : whole;
      yield {
        seq,
        event: redact ? () => redacted(event(), personName) : event,
        line: pseudonym ? withPseudonyms(text, pseudonym) : text,
      };
    }
  }

  *#eventsAfter(after: number): Generator<StoredEvent> {
    if (after < this.archivedUpTo) {
      // An archived segment that is not held ends the page. The reader fetches the segment and reads again.
      if (this.#held?.hasNext(after)) yield* this.#held.after(after);
      return;
    }
    const [start] = this.#sql
      .exec<{ seq: number }>("SELECT seq FROM log WHERE seq <= ? ORDER BY seq DESC LIMIT 1", after + 1)
      .toArray();
    if (!start) return;
    for (const row of this.#sql.exec<Row>("SELECT * FROM log WHERE seq >= ? ORDER BY seq", start.seq)) {
      yield* eventsInRow(row, after, () => this.#parts(row.seq));
    }
  }

  // ---- the archived part ------------------------------------------------------------------------------

  /** Every event up to this one is in the archive. */
  get archivedUpTo(): number {
    this.#archivedUpTo ??= this.#segmentFrom(Number.MAX_SAFE_INTEGER)?.last ?? 0;
    return this.#archivedUpTo;
  }

  /** Reads anew how far the archive reaches: a change was undone. */
  refresh(): void {
    this.#archivedUpTo = undefined;
  }

  segments(): ArchivedSegment[] {
    return this.#sql
      .exec<ArchivedSegment>("SELECT first, last, key, chars FROM segment ORDER BY first")
      .toArray();
  }

  /** The archived segment that a read after `after` needs; undefined if that read needs no archive or the held segment. */
  missingSegment(after: number): ArchivedSegment | undefined {
    if (after >= this.archivedUpTo || this.#held?.hasNext(after)) return undefined;
    return this.#segmentFrom(after + 1);
  }

  /** The last segment that begins at event `seq` or before it. Segments follow each other without a gap. */
  #segmentFrom(seq: number): ArchivedSegment | undefined {
    return this.#sql
      .exec<ArchivedSegment>(
        "SELECT first, last, key, chars FROM segment WHERE first <= ? ORDER BY first DESC LIMIT 1",
        seq,
      )
      .toArray()[0];
  }

  /** Holds the text of a segment for the reads that follow, in place of the segment held before. */
  hold({ first, last }: ArchivedSegment, text: string): void {
    this.#held = new HeldSegment(first, last, text.split("\n"));
  }

  /**
   * The end of the rows to archive next: whole rows from the oldest on, up to event `seq` and about `maxChars`. The log
   * ends with `lastSeq`.
   */
  oldestRowsEnd(seq: number, lastSeq: number, maxChars: number): number | undefined {
    let chars = 0;
    let end: number | undefined;
    let start: number | undefined;
    for (const row of this.#sql.exec<{ seq: number; n: number }>(
      `SELECT seq, length(body) + coalesce((SELECT sum(length(body)) FROM log_part WHERE log_part.seq = log.seq), 0) AS n
       FROM log ORDER BY seq`,
    )) {
      // A row ends where the next one starts.
      if (start !== undefined) {
        if (row.seq - 1 > seq) return end;
        end = row.seq - 1;
        if (chars > maxChars) return end;
      }
      start = row.seq;
      chars += row.n;
    }
    return start !== undefined && lastSeq <= seq ? lastSeq : end;
  }

  /** Keeps one event in storage when the rest of its segment moves to the archive. */
  pin(sessionId: string, seq: number): void {
    const [envelope] = this.envelopes(sessionId, seq - 1);
    if (envelope && envelope.line.length <= this.#rowChars)
      this.#sql.exec("INSERT OR REPLACE INTO pinned (seq, line) VALUES (?, ?)", seq, envelope.line);
  }

  /** Removes the rows of a segment that is in the archive now. */
  removeArchived({ first, last, key, chars }: ArchivedSegment): void {
    this.#sql.exec("DELETE FROM log WHERE seq <= ?", last);
    this.#sql.exec("DELETE FROM log_part WHERE seq <= ?", last);
    this.#sql.exec(
      "INSERT INTO segment (first, last, key, chars) VALUES (?, ?, ?, ?)",
      first,
      last,
      key,
      chars,
    );
    this.#archivedUpTo = last;
  }

  /** A pinned event. */
  pinnedEvent(seq: number): LogEvent | undefined {
    const [row] = this.#sql.exec<{ line: string }>("SELECT line FROM pinned WHERE seq = ?", seq).toArray();
    return row && eventInLine(row.line);
  }

  #parts(seq: number): string {
    return this.#sql
      .exec<{ body: string }>("SELECT body FROM log_part WHERE seq = ? ORDER BY part", seq)
      .toArray()
      .map((part) => part.body)
      .join("");
  }

  #write(ids: string, { seq, at, context, heads, texts }: NewRow): void {
    const [body = "", ...parts] = textChunks(texts.join(""), this.#rowChars);
    this.#sql.exec(
      "INSERT INTO log (seq, at, ids, context, heads, body) VALUES (?, ?, ?, ?, ?, ?)",
      seq,
      at,
      ids,
      JSON.stringify(context),
      `[${heads.join(",")}]`,
      body,
    );
    for (const [i, part] of parts.entries()) {
      this.#sql.exec("INSERT INTO log_part (seq, part, body) VALUES (?, ?, ?)", seq, i + 1, part);
    }
  }
}

/** An archived segment in memory. Line i is event first + i. */
class HeldSegment {
  readonly first: number;
  readonly last: number;
  readonly #lines: string[];

  constructor(first: number, last: number, lines: string[]) {
    this.first = first;
    this.last = last;
    this.#lines = lines;
  }

  /** Whether the event after `after` is in this segment. */
  hasNext(after: number): boolean {
    return after + 1 >= this.first && after < this.last;
  }

  *after(after: number): Generator<StoredEvent> {
    for (let seq = after + 1; seq <= this.last; seq += 1) {
      const line = this.#lines[seq - this.first] as string;
      yield { seq, size: line.length, event: () => eventInLine(line), line: () => line };
    }
  }
}
