/**
 * How far one client has read a session's log: past event `seq`, and past the first `part` frames of the event after
 * it. `attachment` is the event by which the client attached to the session, because an event may render differently
 * under another attachment. The receiver of the frames owns its cursor; a session only keeps a copy.
 */
export type Cursor = { readonly attachment: number; readonly seq: number; readonly part: number };

/** A cursor between two events. Socket attachments keep cursors in this form, because their room is small. */
export type EventCursor = Omit<Cursor, "part">;

/** The cursor right after event `seq`. */
export function cursorAfter({ attachment, seq }: EventCursor): Cursor {
  return { attachment, seq, part: 0 };
}

export function isSameCursor(a: Cursor, b: Cursor): boolean {
  return a.attachment === b.attachment && a.seq === b.seq && a.part === b.part;
}

/** The text of a cursor between two events, as clients of the resumable wire keep it. */
export function encodeCursor({ attachment, seq }: EventCursor): string {
  return `${attachment}.${seq}`;
}

export function parseCursor(text: string): EventCursor | undefined {
  const match = /^(\d{1,15})\.(\d{1,15})$/.exec(text);
  return match ? { attachment: Number(match[1]), seq: Number(match[2]) } : undefined;
}
