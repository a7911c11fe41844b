import type { Cursor } from "../../protocol/cursor.ts";
import type { Refusal } from "../../protocol/refusal.ts";
import type { FrameMark } from "../../protocol/rpc.ts";

/**
 * Where a reader of an event stream is: how many of the connection's own messages it has had, and its cursor in the
 * session's log. The id of each event holds both, so a reader can continue from any event.
 */
export type StreamPosition = { readonly sent: number; readonly cursor: Cursor | null };

export function streamEventId({ sent, cursor }: StreamPosition): string {
  return cursor ? `${sent}-${cursor.attachment}.${cursor.seq}.${cursor.part}` : String(sent);
}

function parseEventId(text: string): StreamPosition | undefined {
  const match = /^(\d{1,15})(?:-(\d{1,15})\.(\d{1,15})\.(\d{1,15}))?$/.exec(text);
  if (!match) return undefined;
  const [sent = 0, attachment, seq = 0, part = 0] = match
    .slice(1)
    .map((n) => (n === undefined ? n : Number(n)));
  return { sent, cursor: attachment === undefined ? null : { attachment, seq, part } };
}

/** The cursor right after a frame. */
export function cursorAfterFrame(attachment: number, { seq, part }: FrameMark): Cursor {
  return part === null ? { attachment, seq, part: 0 } : { attachment, seq: seq - 1, part: part + 1 };
}

/**
 * The position of a reader that resumes a stream. A stream begins only where its reader asks: elsewhere the reader would
 * miss messages without knowing.
 */
export function resumedAt(
  lastEventId: string,
  { sent, dropped }: { readonly sent: number; readonly dropped: number },
): StreamPosition | Refusal {
  const from = parseEventId(lastEventId);
  if (!from || from.sent > sent) return { reason: "conflict", message: "Unknown Last-Event-ID" };
  const message = "The events after Last-Event-ID are no longer stored";
  return from.sent < dropped ? { reason: "conflict", message } : from;
}
