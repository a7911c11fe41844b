import { type EnvelopeLine, isLineFault, readEnvelope, withRecordId } from "../../core/events/envelope.ts";
import { ImportError } from "../import-error.ts";
import { ByteLineSplitter } from "./byte-line-splitter.ts";

/**
 * Reads the segments of an import in order and passes on their events. It checks that all events belong to the session
 * `recordId` and are numbered from 1 without a gap. The passed events belong to the session `sessionId`.
 */
export class SegmentReader {
  readonly #recordId: string;
  readonly #sessionId: string;
  readonly #onEvent: (read: EnvelopeLine) => void;
  readonly #lines: ByteLineSplitter;
  #file: string | null = null;
  #line = 0;
  #lastSeq = 0;

  constructor(
    recordId: string,
    sessionId: string,
    maxLineBytes: number,
    onEvent: (read: EnvelopeLine) => void,
  ) {
    this.#recordId = recordId;
    this.#lines = new ByteLineSplitter(maxLineBytes);
    this.#sessionId = sessionId;
    this.#onEvent = onEvent;
  }

  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Takes the next bytes of a segment. Throws an `ImportError` that names the faulty line. */
  push(file: string, bytes: Uint8Array): void {
    if (file !== this.#file) this.end();
    this.#file = file;
    try {
      for (const line of this.#lines.push(bytes)) this.#read(line);
    } catch (error) {
      throw this.#fault(error, this.#line + 1);
    }
  }

  /** Ends the current segment. */
  end(): void {
    const rest = this.#lines.end();
    if (rest) this.#read(rest);
    this.#line = 0;
  }

  #read(bytes: Uint8Array): void {
    this.#line += 1;
    try {
      const read = readEnvelope(DECODER.decode(bytes));
      if (isLineFault(read)) throw new Error(read.fault);
      this.#check(read);
      this.#lastSeq = read.event.seq;
      this.#onEvent(this.#adopted(read));
    } catch (error) {
      throw this.#fault(error, this.#line);
    }
  }

  #check({ event, recordId }: EnvelopeLine): void {
    if (recordId !== this.#recordId)
      throw new Error(`acpxRecordId is ${recordId}, but the archive is of ${this.#recordId}`);
    const expected = this.#lastSeq + 1;
    if (event.seq === expected) return;
    throw new Error(
      event.seq < expected
        ? `seq ${event.seq} comes a second time or out of order (expected ${expected})`
        : `seq ${event.seq} follows ${this.#lastSeq}: ${event.seq - expected} events are missing here`,
    );
  }

  #adopted(read: EnvelopeLine): EnvelopeLine {
    return this.#sessionId === this.#recordId
      ? read
      : { ...read, line: withRecordId(read.line, this.#sessionId) };
  }

  #fault(error: unknown, line: number): ImportError {
    return error instanceof ImportError ? error : new ImportError(messageOf(error), this.#file, line);
  }
}

function messageOf(error: unknown): string {
  if (error instanceof TypeError && error.message.toLowerCase().includes("decod")) return "not valid UTF-8";
  return error instanceof Error ? error.message : String(error);
}

const DECODER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
