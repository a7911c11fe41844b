import { mustReadFrame } from "../../protocol/frame.ts";
import { NEWEST_READ, NewerVersion, versionOf } from "../../protocol/versions.ts";
import { isFactKind } from "../core/events/catalogue.ts";
import { isLineFault, readEnvelope } from "../core/events/envelope.ts";
import {
  type Context,
  type EventBase,
  envelope,
  eventId,
  type FactEvent,
  type ForeignEvent,
  isFrame,
  type LogEvent,
  type Payload,
  type Route,
  type Source,
} from "../core/events/event.ts";

/**
 * The form of events in storage. One row holds events that arrived together and share a context: `body` joins their
 * texts, and `heads` says for each event how long its text is and what the event is.
 *
 * An imported event is stored like one of our own if reading the row gives back its line byte for byte. Otherwise the
 * row holds the line itself.
 */
export type Row = { seq: number; at: number; ids: string; context: string; heads: string; body: string };

/**
 * The heads of a row of version 1 are an array of these, which costs the row no version. The heads of a later version
 * are an object with `v`.
 *
 * The description of one event in a row; `n` is the length of the event's text. A bare number is that length for the
 * commonest event, a plain frame from the agent.
 */
type Head =
  | number
  | { n: number; s: Source; q?: string; d: "in" | "out"; r?: Route }
  /** `f`: the event is foreign. */
  | { n: number; s: Source; q?: string; k: string; f?: 1 }
  /** The text is the whole envelope. */
  | { n: number; line: 1 };

/** An event in a row. It is decoded only when `event` or `line` is called. */
export type StoredEvent = {
  seq: number;
  /** Characters of the stored text. */
  size: number;
  event: () => LogEvent;
  line: (sessionId: string) => string;
};

/** An event as readers of the log see it. */
export type Envelope = { seq: number; event: () => LogEvent; line: string };

/** The events of a row after `after`. `readParts` gives the rest of a text that is too long for the row. */
export function* eventsInRow(row: Row, after: number, readParts: () => string): Generator<StoredEvent> {
  const heads = headsOf(row);
  const context = JSON.parse(row.context) as Context;
  const sizes = heads.map((head) => (typeof head === "number" ? head : head.n));
  // A row whose text continues in parts has one event only.
  const body = row.body.length < (sizes[0] ?? 0) ? row.body + readParts() : row.body;
  let offset = 0;
  for (const [index, head] of heads.entries()) {
    const size = sizes[index] as number;
    const seq = row.seq + index;
    if (seq > after) {
      const text = body.slice(offset, offset + size);
      let decoded: LogEvent | undefined;
      const event = () => {
        decoded ??= decode(head, text, { seq, at: row.at, context });
        return decoded;
      };
      const line = (sessionId: string) =>
        isLine(head) ? text : envelope(event(), sessionId, eventId(row.ids, index));
      yield { seq, size, event, line };
    }
    offset += size;
  }
}

function headsOf({ seq, heads: text }: Row): Head[] {
  const heads = JSON.parse(text) as unknown;
  if (Array.isArray(heads)) return heads as Head[];
  throw new NewerVersion(`The row of event ${seq} in the log`, versionOf(heads), NEWEST_READ.row);
}

/** A row on its way into storage. */
export type NewRow = { seq: number; at: number; context: Context; heads: string[]; texts: string[] };

/** One event of a row on its way into storage. */
export type RowEntry = { head: string; text: string };

export function entryOf(event: LogEvent): RowEntry {
  const text = isFrame(event) ? event.frame.raw : JSON.stringify(event.payload);
  return { head: JSON.stringify(encodeHead(event, text.length)), text };
}

/** Stores an event as the line it came in. */
export function lineEntry(line: string): RowEntry {
  return { head: JSON.stringify({ n: line.length, line: 1 } satisfies Head), text: line };
}

/** The share of an entry in its row's `rowChars`. */
export function entryChars({ head, text }: RowEntry): number {
  return head.length + 1 + text.length;
}

/** The rows of a batch. A new row begins where the context or the time changes, or where the row would be too long. */
export function* rowsOf(events: readonly LogEvent[], maxChars: number): Generator<NewRow> {
  let row: NewRow | undefined;
  let chars = 0;
  for (const event of events) {
    const entry = entryOf(event);
    const size = entryChars(entry);
    const isShared = row && row.context === event.context && row.at === event.at;
    if (row && (!isShared || chars + size > maxChars)) {
      yield row;
      row = undefined;
      chars = 0;
    }
    row ??= { seq: event.seq, at: event.at, context: event.context, heads: [], texts: [] };
    row.heads.push(entry.head);
    row.texts.push(entry.text);
    chars += size;
  }
  if (row) yield row;
}

function encodeHead(event: LogEvent, n: number): Head {
  const { source: s, requestId } = event;
  const q = requestId === undefined ? {} : { q: requestId };
  if (!isFrame(event)) return { n, s, ...q, k: event.kind, ...("foreign" in event ? { f: 1 } : {}) };
  const isPlain = Object.keys(event.route).length === 0;
  if (s === "agent" && event.direction === "in" && isPlain && requestId === undefined) return n;
  return { n, s, ...q, d: event.direction, ...(isPlain ? {} : { r: event.route }) };
}

function isLine(head: Head): head is { n: number; line: 1 } {
  return typeof head === "object" && "line" in head;
}

function decode(head: Head, text: string, place: { seq: number; at: number; context: Context }): LogEvent {
  if (isLine(head)) return eventInLine(text);
  if (typeof head === "number") {
    return {
      ...place,
      kind: "acp.frame",
      source: "agent",
      direction: "in",
      frame: mustReadFrame(text),
      route: {},
    };
  }
  const base = { ...place, source: head.s, ...(head.q === undefined ? {} : { requestId: head.q }) };
  if ("k" in head) return factOf(head, base, JSON.parse(text) as Payload);
  return { ...base, kind: "acp.frame", direction: head.d, frame: mustReadFrame(text), route: head.r ?? {} };
}

/** The gateway wrote or checked every stored payload, so a payload is not checked again. */
function factOf(
  { k: kind, f }: { k: string; f?: 1 },
  base: EventBase,
  payload: Payload,
): FactEvent | ForeignEvent {
  if (f === 1 || !isFactKind(kind)) return { ...base, kind, payload, foreign: true };
  return { ...base, kind, payload } as FactEvent;
}

/** The event of a stored envelope. */
export function eventInLine(line: string): LogEvent {
  const read = readEnvelope(line);
  if (isLineFault(read)) throw new Error(`The log holds a line that is no event: ${read.fault}`);
  return read.event;
}
