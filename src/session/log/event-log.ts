import { newUlid } from "../../durable/new-id.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { eventIdPrefix, type LogEvent } from "../core/events/event.ts";
import { redacted, redactedLine } from "../core/read/redaction/redaction.ts";
import type { Segment } from "./history-archive.ts";
import {
  type Envelope,
  eventOfLine,
  type NewRow,
  type Row,
  rows,
  type Stored,
  storedIn,
} from "./row-format.ts";

/**
 * The append-only log of one session in SQLite.
 *
 * One row holds the events that arrived together and share a context; a batch is written in one go and
 * commits as one. Texts too long for a row continue in `log_part`.
 */
export class EventLog {
  readonly #sql: SqlStorage;
  #archivedUpTo: number | undefined;
  #held: HeldSegment | undefined;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Writes a batch. The events carry consecutive sequence numbers after the last one written. */
  append(events: readonly LogEvent[]): void {
    for (const row of rows(events)) this.#write(eventIdPrefix(newUlid(row.at)), row);
  }

  /** Writes one row of events under the ids they have: `ids`, and their place in the row. */
  appendRow(ids: string, row: NewRow): void {
    this.#write(ids, row);
  }

  /** Events after `after`, in order, until their texts exceed `maxChars` or `maxEvents` is reached. */
  read(after: number, maxChars: number, maxEvents = Number.POSITIVE_INFINITY): LogEvent[] {
    const events: LogEvent[] = [];
    let chars = 0;
    for (const { event, size } of this.#from(after)) {
      if (events.length > 0 && (chars + size > maxChars || events.length >= maxEvents)) break;
      chars += size;
      events.push(event());
    }
    return events;
  }

  /** The same as envelopes, one per line, with the sequence number of the last. */
  readEnvelopes(
    sessionId: string,
    after: number,
    maxChars: number,
    maxEvents: number,
    redact?: boolean,
  ): { text: string; last: number; count: number } {
    let text = "";
    let last = after;
    let count = 0;
    for (const { seq, line } of this.envelopes(sessionId, after, redact)) {
      if (count > 0 && (text.length + line.length > maxChars || count >= maxEvents)) break;
      text += `${line}\n`;
      last = seq;
      count += 1;
    }
    return { text, last, count };
  }

  /** Envelopes after `after`, one by one. Not to be held across an await: it reads from an open cursor. */
  *envelopes(sessionId: string, after: number, redact = false): Generator<Envelope> {
    for (const { seq, event, line } of this.#from(after)) {
      const text = line(sessionId);
      if (!redact) yield { seq, event, line: text };
      else yield { seq, event: () => redacted(event()), line: redactedLine(text, event()) };
    }
  }

  *#from(after: number): Generator<Stored> {
    const held = this.#held;
    if (after < this.archivedUpTo) {
      // What is out of reach ends the page; the reader reaches for it and comes again.
      if (held && after + 1 >= held.first && after < held.last) yield* held.after(after);
      return;
    }
    const [start] = this.#sql
      .exec<{ seq: number }>("SELECT seq FROM log WHERE seq <= ? ORDER BY seq DESC LIMIT 1", after + 1)
      .toArray();
    if (!start) return;
    for (const row of this.#sql.exec<Row>("SELECT * FROM log WHERE seq >= ? ORDER BY seq", start.seq)) {
      yield* storedIn(row, after, () => this.#parts(row.seq));
    }
  }

  // ---- the archived part ------------------------------------------------------------------------------

  /** Every event up to this one is in the archive. */
  get archivedUpTo(): number {
    this.#archivedUpTo ??= this.segments().at(-1)?.last ?? 0;
    return this.#archivedUpTo;
  }

  segments(): Segment[] {
    return this.#sql.exec<Segment>("SELECT first, last, key, chars FROM segment ORDER BY first").toArray();
  }

  /** The segment a reading after `after` would need and does not have. */
  outOfReach(after: number): Segment | undefined {
    if (
      after >= this.archivedUpTo ||
      (this.#held && after + 1 >= this.#held.first && after < this.#held.last)
    ) {
      return undefined;
    }
    return this.#sql
      .exec<Segment>(
        "SELECT first, last, key, chars FROM segment WHERE last > ? ORDER BY first LIMIT 1",
        after,
      )
      .toArray()[0];
  }

  /** Keeps a segment's text at hand; the one before it is let go. */
  hold({ first, last }: Segment, text: string): void {
    this.#held = new HeldSegment(first, last, text.split("\n"));
  }

  /** The last event of the last row that ends by `seq`, after at most about `maxChars`. */
  rowEndingBy(seq: number, maxChars: number): number | undefined {
    let chars = 0;
    let end: number | undefined;
    let start: number | undefined;
    for (const row of this.#sql.exec<{ seq: number; n: number }>(
      `SELECT seq, length(body) + coalesce((SELECT sum(length(body)) FROM log_part WHERE log_part.seq = log.seq), 0) AS n
       FROM log ORDER BY seq`,
    )) {
      // A row ends where the next one starts.
      if (start !== undefined) {
        if (row.seq - 1 > seq) break;
        end = row.seq - 1;
        if (chars > maxChars) break;
      }
      start = row.seq;
      chars += row.n;
    }
    return end;
  }

  /** Keeps an event within reach when the rest of its segment goes. */
  pin(sessionId: string, seq: number): void {
    const [envelope] = this.envelopes(sessionId, seq - 1);
    if (envelope)
      this.#sql.exec("INSERT OR REPLACE INTO pinned (seq, line) VALUES (?, ?)", seq, envelope.line);
  }

  /** Forgets a segment's rows, which are in the archive now. */
  remove({ first, last, key, chars }: Segment): void {
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

  /** An event that was kept within reach. */
  pinned(seq: number): LogEvent | undefined {
    const [row] = this.#sql.exec<{ line: string }>("SELECT line FROM pinned WHERE seq = ?", seq).toArray();
    return row && eventOfLine(row.line);
  }

  #parts(seq: number): string {
    return this.#sql
      .exec<{ body: string }>("SELECT body FROM log_part WHERE seq = ? ORDER BY part", seq)
      .toArray()
      .map((part) => part.body)
      .join("");
  }

  #write(ids: string, { seq, at, context, heads, texts }: NewRow): void {
    const [body = "", ...parts] = textChunks(texts.join(""), LIMITS.rowChars);
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

/** An archived segment at hand: line i is event first + i. */
class HeldSegment {
  readonly first: number;
  readonly last: number;
  readonly #lines: string[];

  constructor(first: number, last: number, lines: string[]) {
    this.first = first;
    this.last = last;
    this.#lines = lines;
  }

  *after(after: number): Generator<Stored> {
    for (let seq = after + 1; seq <= this.last; seq += 1) {
      const line = this.#lines[seq - this.first] as string;
      yield { seq, size: line.length, event: () => eventOfLine(line), line: () => line };
    }
  }
}
