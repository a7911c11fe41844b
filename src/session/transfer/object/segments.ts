import { isoTime } from "../../../protocol/iso-time.ts";
import type { SegmentCursor, SegmentPage, TurnMark } from "../../../protocol/rpc.ts";
import { RPC_VERSION } from "../../../protocol/versions.ts";
import { FACTS, type FactKind } from "../../core/events/catalogue.ts";
import { type FactEvent, isFact, type LogEvent } from "../../core/events/event.ts";
import type { Envelope } from "../../log/row-format.ts";
import { concatBytes } from "../concat-bytes.ts";

/**
 * Bounds of one segment file of a session archive. A file boundary depends on the lines alone: exporting a log twice
 * gives the same files, and a log that has grown since its import gives the files it came in, followed by new ones.
 */
const SEGMENT = {
  /** A single line may be larger; it is then a segment of its own. */
  bytes: 8 * 1024 * 1024,
  events: 10_000,
} as const;

/** The next piece of about `maxBytes` that holds no event after `upTo`. */
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
    // An import starts a new segment, so that the files before it stay those it came in.
    full = cursor.events > 0 && (isFull(cursor, bytes.length) || event().kind === "session.imported");
    if (full) break;
    if (size > 0 && size + bytes.length > maxBytes) break;
    const logged = event();
    if (isTurnFact(logged)) turns.push(turnMark(logged));
    lines.push(bytes);
    size += bytes.length;
    cursor.after = seq;
    cursor.bytes += bytes.length;
    cursor.events += 1;
  }
  return { v: RPC_VERSION, bytes: concatBytes(lines), cursor, ends: full || cursor.after >= upTo, turns };
}

function isFull({ bytes, events }: SegmentCursor, more: number): boolean {
  return bytes + more > SEGMENT.bytes || events >= SEGMENT.events;
}

type TurnFact = FactEvent<Extract<FactKind, `turn.${string}`>>;

function isTurnFact(event: LogEvent): event is TurnFact {
  return isFact(event) && FACTS[event.kind].turn !== undefined;
}

function turnMark({ kind, payload, seq, at }: TurnFact): TurnMark {
  return {
    status: FACTS[kind].turn ?? "running",
    seq,
    at: isoTime(at),
    turnId: payload.turnId,
    prompt: payload.prompt,
    stopReason: "stopReason" in payload ? payload.stopReason : null,
  };
}

const ENCODER = new TextEncoder();
