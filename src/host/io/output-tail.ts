import { StringDecoder } from "node:string_decoder";

/** Memory is taken in blocks, so that small writes cost no memory of their own. */
const BLOCK_BYTES = 16 * 1024;

/** Part of an output. `age` orders the blocks of all outputs: the smallest is the oldest. */
type Block = { bytes: Buffer; length: number; age: number };

/** Counts memory before it is taken, and makes room for it. */
export type OutputMemory = { take(bytes: number): void; free(bytes: number): void };

let nextAge = 0;

/** The last bytes of an output, up to a limit, or fewer if others need the memory. */
export class OutputTail {
  readonly #limit: number;
  readonly #memory: OutputMemory | undefined;
  readonly #blocks: Block[] = [];
  #length = 0;
  #truncated = false;

  constructor(limit: number, memory?: OutputMemory) {
    this.#limit = limit;
    this.#memory = memory;
  }

  push(chunk: Buffer): void {
    let rest = chunk.subarray(Math.max(0, chunk.length - this.#limit));
    this.#truncated ||= this.#length + chunk.length > this.#limit;
    const last = this.#blocks.at(-1);
    if (last) rest = this.#append(last, rest);
    if (rest.length > 0) this.#append(this.#newBlock(Math.max(BLOCK_BYTES, rest.length)), rest);
    for (
      let [first] = this.#blocks;
      first && this.#length - first.length >= this.#limit;
      [first] = this.#blocks
    )
      this.dropOldest();
  }

  /** Undefined if there is no output. */
  get age(): number | undefined {
    return this.#blocks[0]?.age;
  }

  dropOldest(): void {
    const block = this.#blocks.shift();
    if (!block) return;
    this.#length -= block.length;
    this.#truncated ||= block.length > 0;
    this.#memory?.free(block.bytes.length);
  }

  /** Whole characters only: a character that the limit cuts, or that is incomplete at the end, is left out. */
  read(): { output: string; truncated: boolean } {
    const whole = Buffer.concat(this.#blocks.map(({ bytes, length }) => bytes.subarray(0, length)));
    let start = Math.max(0, whole.length - this.#limit);
    if (this.#truncated) {
      for (let skipped = 0; skipped < 3 && isContinuation(whole[start]); skipped++) start++;
    }
    const output = new StringDecoder("utf8").write(whole.subarray(start));
    return { output, truncated: this.#truncated };
  }

  /** Returns what does not fit. */
  #append(block: Block, chunk: Buffer): Buffer {
    const copied = chunk.copy(block.bytes, block.length);
    block.length += copied;
    this.#length += copied;
    return chunk.subarray(copied);
  }

  #newBlock(bytes: number): Block {
    // The room for a block may be made by dropping blocks of this output.
    this.#memory?.take(bytes);
    const block = { bytes: Buffer.allocUnsafe(bytes), length: 0, age: nextAge++ };
    this.#blocks.push(block);
    return block;
  }
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
