import { mustReadFrame } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
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
 * How events are put into rows, and read from them. One row holds the events that arrived together and
 * share a context: `body` is their texts end to end, `heads` says where each begins and what it is.
 *
 * Events that came from elsewhere are stored like our own if reading them gives the line they came in,
 * byte for byte; else the row holds the lines themselves.
 */
export type Row = { seq: number; at: number; ids: string; context: string; heads: string; body: string };

/**
 * An event in storage. A bare number is the commonest case, a frame from the agent with nothing special
 * about it, and gives the length of its text.
 */
type Head =
  | number
  | { n: number; s: Source; q?: string; d: "in" | "out"; r?: Route }
  /** `f`: the event is foreign. */
  | { n: number; s: Source; q?: string; k: string; f?: 1 }
  /** The text is the whole envelope. */
  | { n: number; line: 1 };

/** An event in a row, decoded when it is wanted. */
export type Stored = {
  seq: number;
  /** Characters of its text. */
  size: number;
  event: () => LogEvent;
  line: (sessionId: string) => string;
};

/** The same as readers of the log see it. */
export type Envelope = { seq: number; event: () => LogEvent; line: string };

/** The events of a row after `after`. Of a text that is too long for a row `more` gives the rest. */
export function* storedIn(row: Row, after: number, more: () => string): Generator<Stored> {
  const heads = JSON.parse(row.heads) as Head[];
  const context = JSON.parse(row.context) as Context;
  const sizes = heads.map((head) => (typeof head === "number" ? head : head.n));
  // Only a row with a single event is ever split.
  const body = row.body.length < (sizes[0] ?? 0) ? row.body + more() : row.body;
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

/** A row on its way into storage. */
export type NewRow = { seq: number; at: number; context: Context; heads: string[]; texts: string[] };

/** One event of such a row. */
export type Entry = { head: string; text: string };

export function entryOf(event: LogEvent): Entry {
  const text = isFrame(event) ? event.frame.raw : JSON.stringify(event.payload);
  return { head: JSON.stringify(encodeHead(event, text.length)), text };
}

export function lineEntry(line: string): Entry {
  return { head: JSON.stringify({ n: line.length, line: 1 } satisfies Head), text: line };
}

/** What an event takes of its row's room. */
export function entryChars({ head, text }: Entry): number {
  return head.length + 1 + text.length;
}

/** Rows of a batch: a new one where the context changes or the row would grow past its limit. */
export function* rows(events: readonly LogEvent[]): Generator<NewRow> {
  let row: NewRow | undefined;
  let chars = 0;
  for (const event of events) {
    const entry = entryOf(event);
    const size = entryChars(entry);
    const fits = row && row.context === event.context && row.at === event.at;
    if (row && (!fits || chars + size > LIMITS.rowChars)) {
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
  const plain = Object.keys(event.route).length === 0;
  if (s === "agent" && event.direction === "in" && plain && requestId === undefined) return n;
  return { n, s, ...q, d: event.direction, ...(plain ? {} : { r: event.route }) };
}

function isLine(head: Head): head is { n: number; line: 1 } {
  return typeof head === "object" && "line" in head;
}

function decode(head: Head, text: string, place: { seq: number; at: number; context: Context }): LogEvent {
  if (isLine(head)) return eventOfLine(text);
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
  if ("k" in head) return factIn(head, base, JSON.parse(text) as Payload);
  return { ...base, kind: "acp.frame", direction: head.d, frame: mustReadFrame(text), route: head.r ?? {} };
}

/** Rows hold what this code has written or checked: a payload is not checked again. */
function factIn(
  { k: kind, f }: { k: string; f?: 1 },
  base: EventBase,
  payload: Payload,
): FactEvent | ForeignEvent {
  if (f === 1 || !isFactKind(kind)) return { ...base, kind, payload, foreign: true };
  return { ...base, kind, payload } as FactEvent;
}

export function eventOfLine(line: string): LogEvent {
  const read = readEnvelope(line);
  if (isLineFault(read)) throw new Error(`The log holds a line that is no event: ${read.fault}`);
  return read.event;
}
