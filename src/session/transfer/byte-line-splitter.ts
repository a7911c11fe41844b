/** Cuts bytes that arrive in pieces into lines. A line keeps everything but its line feed. */
export class LineSplitter {
  readonly #maxBytes: number;
  #pieces: Uint8Array[] = [];
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Lines that end in this piece. Throws when a line grows past its limit. */
  *push(piece: Uint8Array): Generator<Uint8Array> {
    let start = 0;
    for (;;) {
      const end = piece.indexOf(LINE_FEED, start);
      if (end === -1) break;
      this.#keep(piece.subarray(start, end));
      yield this.#take();
      start = end + 1;
    }
    // A copy: the caller may use its buffer again.
    if (start < piece.length) this.#keep(piece.slice(start));
  }

  /** The last line, when it had no line feed. */
  end(): Uint8Array | undefined {
    return this.#bytes === 0 ? undefined : this.#take();
  }

  #keep(piece: Uint8Array): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) throw new RangeError(`longer than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }

  #take(): Uint8Array {
    const line = concat(this.#pieces);
    this.#pieces = [];
    this.#bytes = 0;
    return line;
  }
}

export function concat(pieces: readonly Uint8Array[]): Uint8Array {
  if (pieces.length === 1) return pieces[0] as Uint8Array;
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

const LINE_FEED = 0x0a;
