import { StringDecoder } from "node:string_decoder";

/** The last bytes of an output, up to a limit. It uses about twice the limit of memory. */
export class OutputTail {
  readonly #limit: number;
  #bytes = Buffer.alloc(0);
  #length = 0;
  #truncated = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    if (this.#length + chunk.length > this.#bytes.length) {
      const kept = this.#bytes.subarray(this.#start(), this.#length);
      const grown = Buffer.allocUnsafe(2 * (kept.length + chunk.length));
      kept.copy(grown);
      this.#bytes = grown;
      this.#length = kept.length;
    }
    chunk.copy(this.#bytes, this.#length);
    this.#length += chunk.length;
    this.#truncated ||= this.#length > this.#limit;
  }

  /** Whole characters only: a character that the limit cuts, or that is incomplete at the end, is left out. */
  read(): { output: string; truncated: boolean } {
    let start = this.#start();
    if (this.#truncated) {
      for (let skipped = 0; skipped < 3 && isContinuation(this.#bytes[start]); skipped++) start++;
    }
    const output = new StringDecoder("utf8").write(this.#bytes.subarray(start, this.#length));
    return { output, truncated: this.#truncated };
  }

  #start(): number {
    return Math.max(0, this.#length - this.#limit);
  }
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
