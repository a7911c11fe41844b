import type { Envelope } from "../../log/row-format.ts";
import { concat } from "../byte-line-splitter.ts";
import { isTurnKind, type TurnMark, turnMark } from "../turn-index.ts";

/**
 * How a log is cut into the segment files of an archive. Where they are cut depends on the lines alone, so
 * the same log gives the same files every time, and a log that was imported and has grown since gives the
 * files it came in, followed by new ones.
 */
const SEGMENT = {
  /** One line may be larger: then it is a segment of its own. */
  bytes: 8 * 1024 * 1024,
  events: 10_000,
} as const;

export function segmentName(number: number): string {
  return `events/${String(number).padStart(12, "0")}.ndjson`;
}

/** Where a reader of segments stands: the last event it has, and what it has of the current segment. */
export type SegmentCursor = { after: number; bytes: number; events: number };

/** A piece of one segment; `ends` when the next line, if there is one, belongs to the next. */
export type SegmentPage = {
  bytes: Uint8Array;
  cursor: SegmentCursor;
  ends: boolean;
  turns: TurnMark[];
};

/** The next piece of about `maxBytes`, with nothing after event `upTo`. */
export function segmentPage(
  envelopes: Iterable<Envelope>,
  start: SegmentCursor,
  upTo: number,
  maxBytes: number,
): SegmentPage {
  const lines: Uint8Array[] = [];
  const turns: TurnMark[] = [];
  const cursor = { ...start };
  let size = 0;
  let full = false;
  for (const { seq, event, line } of envelopes) {
    if (seq > upTo) break;
    const bytes = ENCODER.encode(`${line}\n`);
    full = cursor.events > 0 && (isFull(cursor, bytes.length) || event().kind === "session.imported");
    if (full) break;
    if (size > 0 && size + bytes.length > maxBytes) break;
    if (isTurnKind(event().kind)) turns.push(turnMark(event()));
    lines.push(bytes);
    size += bytes.length;
    cursor.after = seq;
    cursor.bytes += bytes.length;
    cursor.events += 1;
  }
  return { bytes: concat(lines), cursor, ends: full || cursor.after >= upTo, turns };
}

function isFull({ bytes, events }: SegmentCursor, more: number): boolean {
  return bytes + more > SEGMENT.bytes || events >= SEGMENT.events;
}

const ENCODER = new TextEncoder();
