import { isFault, readFrame } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  type Context,
  envelope,
  eventId,
  eventIdPrefix,
  isFrame,
  type LogEvent,
  type Payload,
  type Route,
  type Source,
} from "./event.ts";

/**
 * The append-only log of one session in SQLite.
 *
 * One row holds the events that arrived together and share a context; a batch is written in one go and
 * commits as one. A row's `body` is the texts of its events end to end, `heads` says where each begins and
 * what it is. Texts too long for a row continue in `log_part`.
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

/**
 * An event in storage. A bare number is the commonest case, a frame from the agent with nothing special
 * about it, and gives the length of its text.
 */
type Head =
  | number
  | { n: number; s: Source; q?: string; d: "in" | "out"; r?: Route }
  | { n: number; s: Source; q?: string; k: string };

type Row = { seq: number; at: number; ids: string; context: string; heads: string; body: string };

export class EventLog {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Writes a batch. The events carry consecutive sequence numbers after the last one written. */
  append(events: readonly LogEvent[]): void {
    for (const group of groupRows(events)) this.#write(group);
  }

  /** Events after `after`, in order, until their texts exceed `maxChars` or `maxEvents` is reached. */
  read(after: number, maxChars: number, maxEvents = Number.POSITIVE_INFINITY): LogEvent[] {
    const events: LogEvent[] = [];
    let chars = 0;
    for (const { event, size } of this.#from(after)) {
      if (events.length > 0 && (chars + size > maxChars || events.length >= maxEvents)) break;
      chars += size;
      events.push(event);
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
    const lines: string[] = [];
    let chars = 0;
    let last = after;
    for (const { event, size, id } of this.#from(after)) {
      if (lines.length > 0 && (chars + size > maxChars || lines.length >= maxEvents)) break;
      chars += size;
      lines.push(envelope(event, sessionId, id()));
      last = event.seq;
    }
    return { text: lines.map((line) => `${line}\n`).join(""), last, count: lines.length };
  }

  at(seq: number): LogEvent | undefined {
    return this.read(seq - 1, 0, 1).find((event) => event.seq === seq);
  }

  *#from(after: number): Generator<{ event: LogEvent; size: number; id: () => string }> {
    const [start] = this.#sql
      .exec<{ seq: number }>("SELECT seq FROM log WHERE seq <= ? ORDER BY seq DESC LIMIT 1", after + 1)
      .toArray();
    if (!start) return;
    for (const row of this.#sql.exec<Row>("SELECT * FROM log WHERE seq >= ? ORDER BY seq", start.seq)) {
      const heads = JSON.parse(row.heads) as Head[];
      const context = JSON.parse(row.context) as Context;
      const body = this.#wholeBody(row, heads);
      let offset = 0;
      for (const [index, head] of heads.entries()) {
        const size = typeof head === "number" ? head : head.n;
        const seq = row.seq + index;
        if (seq > after) {
          const event = decode(head, body.slice(offset, offset + size), { seq, at: row.at, context });
          yield { event, size, id: () => eventId(row.ids, index) };
        }
        offset += size;
      }
    }
  }

  #wholeBody(row: Row, heads: readonly Head[]): string {
    if (heads.length !== 1 || row.body.length < LIMITS.rowChars - 1) return row.body;
    let body = row.body;
    for (const part of this.#sql.exec<{ body: string }>(
      "SELECT body FROM log_part WHERE seq = ? ORDER BY part",
      row.seq,
    )) {
      body += part.body;
    }
    return body;
  }

  #write(group: readonly LogEvent[]): void {
    const first = group[0];
    if (!first) return;
    const texts = group.map(textOf);
    const [body = "", ...parts] = slices(texts.join(""));
    const heads = group.map((event, i) => encodeHead(event, (texts[i] as string).length));
    this.#sql.exec(
      "INSERT INTO log (seq, at, ids, context, heads, body) VALUES (?, ?, ?, ?, ?, ?)",
      first.seq,
      first.at,
      eventIdPrefix(first.at),
      JSON.stringify(first.context),
      JSON.stringify(heads),
      body,
    );
    for (const [i, part] of parts.entries()) {
      this.#sql.exec("INSERT INTO log_part (seq, part, body) VALUES (?, ?, ?)", first.seq, i + 1, part);
    }
  }
}

/** Rows of a batch: a new one where the context changes or the row would grow past its limit. */
function* groupRows(events: readonly LogEvent[]): Generator<LogEvent[]> {
  let group: LogEvent[] = [];
  let chars = 0;
  for (const event of events) {
    const size = textOf(event).length + HEAD_CHARS;
    const last = group.at(-1);
    if (last && (last.context !== event.context || last.at !== event.at || chars + size > LIMITS.rowChars)) {
      yield group;
      group = [];
      chars = 0;
    }
    group.push(event);
    chars += size;
  }
  if (group.length > 0) yield group;
}

/** A generous guess at what one head adds to its row. */
const HEAD_CHARS = 64;

function textOf(event: LogEvent): string {
  return isFrame(event) ? event.frame.raw : JSON.stringify(event.payload);
}

function encodeHead(event: LogEvent, n: number): Head {
  const { source: s, requestId } = event;
  const q = requestId === undefined ? {} : { q: requestId };
  if (!isFrame(event)) return { n, s, ...q, k: event.kind };
  const plain = Object.keys(event.route).length === 0;
  if (s === "agent" && event.direction === "in" && plain && requestId === undefined) return n;
  return { n, s, ...q, d: event.direction, ...(plain ? {} : { r: event.route }) };
}

function decode(head: Head, text: string, place: { seq: number; at: number; context: Context }): LogEvent {
  if (typeof head === "number") {
    return { ...place, kind: "acp.frame", source: "agent", direction: "in", frame: frameOf(text), route: {} };
  }
  const base = { ...place, source: head.s, ...(head.q === undefined ? {} : { requestId: head.q }) };
  if ("k" in head) return { ...base, kind: head.k, payload: JSON.parse(text) as Payload };
  return { ...base, kind: "acp.frame", direction: head.d, frame: frameOf(text), route: head.r ?? {} };
}

function frameOf(text: string) {
  const frame = readFrame(text);
  if (isFault(frame)) throw new Error("The log holds a frame that is not a JSON object");
  return frame;
}

/** Cuts a text into pieces that fit a row, never between the halves of a surrogate pair. */
function slices(text: string): string[] {
  if (text.length <= LIMITS.rowChars) return [text];
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + LIMITS.rowChars, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last <= 0xdbff) end -= 1;
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}
