import { eventIdPrefix, type LogEvent } from "./event.ts";
import { type Envelope, type NewRow, type Row, rows, type Stored, slices, storedIn } from "./log-row.ts";

/**
 * The append-only log of one session in SQLite.
 *
 * One row holds the events that arrived together and share a context; a batch is written in one go and
 * commits as one. Texts too long for a row continue in `log_part`.
 */
export const LOG_SCHEMA = `
  CREATE TABLE log (
    seq INTEGER PRIMARY KEY,  -- of the row's first event
    at INTEGER NOT NULL,
    ids TEXT NOT NULL,        -- what the event ids of the row begin with
    context TEXT NOT NULL,
    heads TEXT NOT NULL,
    body TEXT NOT NULL
  );
  CREATE TABLE log_part (
    seq INTEGER NOT NULL,
    part INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (seq, part)
  );
`;

export class EventLog {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Writes a batch. The events carry consecutive sequence numbers after the last one written. */
  append(events: readonly LogEvent[]): void {
    for (const row of rows(events)) this.#write(eventIdPrefix(row.at), row);
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
  ): { text: string; last: number; count: number } {
    let text = "";
    let last = after;
    let count = 0;
    for (const { seq, line } of this.envelopes(sessionId, after)) {
      if (count > 0 && (text.length + line.length > maxChars || count >= maxEvents)) break;
      text += `${line}\n`;
      last = seq;
      count += 1;
    }
    return { text, last, count };
  }

  /** Envelopes after `after`, one by one. Not to be held across an await: it reads from an open cursor. */
  *envelopes(sessionId: string, after: number): Generator<Envelope> {
    for (const { seq, event, line } of this.#from(after)) yield { seq, event, line: line(sessionId) };
  }

  at(seq: number): LogEvent | undefined {
    return this.read(seq - 1, 0, 1).find((event) => event.seq === seq);
  }

  *#from(after: number): Generator<Stored> {
    const [start] = this.#sql
      .exec<{ seq: number }>("SELECT seq FROM log WHERE seq <= ? ORDER BY seq DESC LIMIT 1", after + 1)
      .toArray();
    if (!start) return;
    for (const row of this.#sql.exec<Row>("SELECT * FROM log WHERE seq >= ? ORDER BY seq", start.seq)) {
      yield* storedIn(row, after, () => this.#parts(row.seq));
    }
  }

  #parts(seq: number): string {
    return this.#sql
      .exec<{ body: string }>("SELECT body FROM log_part WHERE seq = ? ORDER BY part", seq)
      .toArray()
      .map((part) => part.body)
      .join("");
  }

  #write(ids: string, { seq, at, context, heads, texts }: NewRow): void {
    const [body = "", ...parts] = slices(texts.join(""));
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
