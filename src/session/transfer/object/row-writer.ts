import type { EnvelopeLine } from "../../core/events/envelope.ts";
import { type Context, envelope, eventId, eventIdPrefix } from "../../core/events/event.ts";
import { entryChars, entryOf, lineEntry, type NewRow, type RowEntry } from "../../log/row-format.ts";

/**
 * Puts the lines of an imported log into rows that give back the same bytes. An export of this gateway falls into its
 * original rows: the event ids of a row end in its indexes 0, 1, 2 and so on. A line that does not fit this form is
 * stored as it is.
 */
export class RowWriter {
  readonly #sessionId: string;
  readonly #rowChars: number;
  readonly #append: (ids: string, row: NewRow) => void;
  /** The row being filled. `ids` is null for a row of whole lines. */
  #open: (NewRow & { ids: string | null; chars: number }) | undefined;

  constructor(sessionId: string, rowChars: number, append: (ids: string, row: NewRow) => void) {
    this.#rowChars = rowChars;
    this.#sessionId = sessionId;
    this.#append = append;
  }

  write(read: EnvelopeLine): void {
    const compact = entryOf(read.event);
    const isOurs =
      compact.head.length < HEAD_CHARS && envelope(read.event, this.#sessionId, read.id) === read.line;
    if (isOurs && this.#continues(read, compact)) return this.#add(compact);
    const ids = eventIdPrefix(read.id);
    if (isOurs && eventId(ids, 0) === read.id) return this.#begin(read, ids, compact);
    const line = lineEntry(read.line);
    if (this.#open?.ids === null && this.#fits(line)) return this.#add(line);
    this.#begin(read, null, line);
  }

  end(): void {
    if (this.#open) {
      const { ids, chars: _, ...row } = this.#open;
      this.#append(ids ?? "", row);
    }
    this.#open = undefined;
  }

  /** Whether the event can be the next one of the open row. */
  #continues({ event, id }: EnvelopeLine, entry: RowEntry): boolean {
    const open = this.#open;
    return (
      open?.ids != null &&
      eventId(open.ids, open.heads.length) === id &&
      open.at === event.at &&
      sameContext(open.context, event.context) &&
      this.#fits(entry)
    );
  }

  #fits(entry: RowEntry): boolean {
    return this.#open !== undefined && this.#open.chars + entryChars(entry) <= this.#rowChars;
  }

  #begin({ event }: EnvelopeLine, ids: string | null, entry: RowEntry): void {
    this.end();
    const { seq, at, context } = event;
    this.#open = { seq, at, context, ids, heads: [], texts: [], chars: 0 };
    this.#add(entry);
  }

  #add(entry: RowEntry): void {
    this.#open?.heads.push(entry.head);
    this.#open?.texts.push(entry.text);
    if (this.#open) this.#open.chars += entryChars(entry);
  }
}

/** The longest head. Heads share their row with the text, and unlike the text they never continue in another row. */
const HEAD_CHARS = 4096;

function sameContext(a: Context, b: Context): boolean {
  return a.acpSessionId === b.acpSessionId && a.agentSessionId === b.agentSessionId && a.turnId === b.turnId;
}
