/**
 * A line of text, or `noise`: a readable stand-in for a line that is too long or not UTF-8. Of a line that is too long,
 * `beginning` and `end` have the first and the last characters.
 */
export type Line = string | { noise: string; beginning?: string; end?: string };

const NEWLINE = 0x0a;
// A byte order mark is part of the line, because lines are passed on verbatim.
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenient = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Splits a stream of bytes into lines, independently of chunk boundaries. A line over the limit is counted but not
 * kept. The limit is in bytes: a line of that many bytes never has more characters than a frame may have.
 */
export class LineSplitter {
  #maxBytes: number;
  /** The beginning of an unfinished line; the buffer grows by doubling. */
  #partial = Buffer.alloc(0);
  #length = 0;
  /** The last bytes of an unfinished line that is too long. */
  #tail: Buffer | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Lowers the limit. */
  limit(maxBytes: number): void {
    this.#maxBytes = Math.min(this.#maxBytes, maxBytes);
  }

  push(chunk: Buffer): Line[] {
    const last = chunk.lastIndexOf(NEWLINE);
    if (last === -1) {
      this.#keep(chunk);
      return [];
    }
    const lines: Line[] = [];
    let start = 0;
    if (this.#length > 0) {
      start = chunk.indexOf(NEWLINE) + 1;
      this.#keep(chunk.subarray(0, start - 1));
      lines.push(this.#take());
    }
    if (start <= last) {
      for (const line of this.#split(chunk.subarray(start, last))) lines.push(line);
    }
    this.#keep(chunk.subarray(last + 1));
    return lines;
  }

  /** Ends the stream. An unfinished last line counts as a line. */
  end(): Line[] {
    return this.#length > 0 ? [this.#take()] : [];
  }

  /** Splits a block of whole lines. In the common case a single decode serves all of them. */
  #split(block: Buffer): Line[] {
    if (block.length <= this.#maxBytes) {
      try {
        return strict.decode(block).split("\n");
      } catch {
        // At least one line is not UTF-8, so each line is decoded on its own below.
      }
    }
    const lines: Line[] = [];
    for (let start = 0; start <= block.length; ) {
      const newline = block.indexOf(NEWLINE, start);
      const end = newline === -1 ? block.length : newline;
      lines.push(this.#decode(block.subarray(start, end)));
      start = end + 1;
    }
    return lines;
  }

  #decode(bytes: Buffer): Line {
    if (bytes.length > this.#maxBytes) return tooLong(bytes.length, bytes, bytes);
    try {
      return strict.decode(bytes);
    } catch {
      return { noise: lenient.decode(bytes) };
    }
  }

  #keep(bytes: Buffer): void {
    const length = this.#length + bytes.length;
    if (length > this.#maxBytes) {
      this.#tail = endOf(this.#tail ?? this.#partial.subarray(0, this.#length), bytes);
      // The beginning is complete once the line is longer than it.
      if (this.#partial.length > KEPT_BYTES || this.#length < KEPT_BYTES)
        this.#partial = beginningOf(this.#partial.subarray(0, this.#length), bytes);
    } else {
      if (length > this.#partial.length) {
        const grown = Buffer.allocUnsafe(Math.max(length, 2 * this.#partial.length));
        this.#partial.copy(grown, 0, 0, this.#length);
        this.#partial = grown;
      }
      bytes.copy(this.#partial, this.#length);
    }
    this.#length = length;
  }

  #take(): Line {
    const kept = this.#partial.subarray(0, this.#length);
    const line =
      this.#length > this.#maxBytes ? tooLong(this.#length, kept, this.#tail ?? kept) : this.#decode(kept);
    this.#partial = Buffer.alloc(0);
    this.#length = 0;
    this.#tail = undefined;
    return line;
  }
}

function beginningOf(line: Buffer, more: Buffer) {
  const parts = [line.subarray(0, KEPT_BYTES), more.subarray(0, KEPT_BYTES)];
  return Buffer.concat(parts).subarray(0, KEPT_BYTES);
}

function endOf(line: Buffer, more: Buffer) {
  if (more.length >= KEPT_BYTES) return Buffer.from(more.subarray(-KEPT_BYTES));
  return Buffer.concat([line.subarray(-KEPT_BYTES), more]).subarray(-KEPT_BYTES);
}

function tooLong(bytes: number, beginning: Buffer, end: Buffer): Line {
  const noise = `(a line of ${bytes} bytes was dropped: too long for a frame)`;
  const [first, last] = [beginning.subarray(0, KEPT_BYTES), end.subarray(-KEPT_BYTES)];
  return { noise, beginning: lenient.decode(first), end: lenient.decode(last) };
}

/** Kept of the beginning and of the end of a line that is too long. */
const KEPT_BYTES = 1024;
