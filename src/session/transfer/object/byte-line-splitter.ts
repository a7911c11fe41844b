import { concatBytes } from "../concat-bytes.ts";

/** Splits bytes that arrive in pieces into lines. A line keeps everything but its line feed. */
export class ByteLineSplitter {
  readonly #maxBytes: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Yields the lines that end in this piece. Throws a RangeError when a line is longer than `maxBytes`. */
  *push(piece: Uint8Array): Generator<Uint8Array> {
    let start = 0;
    for (;;) {
      const end = piece.indexOf(LINE_FEED, start);
      if (end === -1) break;
      this.#keep(piece.subarray(start, end));
      yield this.#take();
      start = end + 1;
    }
    // The rest is copied because the caller may reuse its buffer.
    if (start < piece.length) this.#keep(piece.slice(start));
  }

  /** The last line, if the input did not end in a line feed. */
  end(): Uint8Array | undefined {
    return this.#bytes === 0 ? undefined : this.#take();
  }

  #keep(piece: Uint8Array): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) throw new RangeError(`longer than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }

  #take(): Uint8Array {
    const line = concatBytes(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    return line;
  }
}

const LINE_FEED = 0x0a;
