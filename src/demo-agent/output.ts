import type { Writable } from "node:stream";
import { setImmediate, setTimeout } from "node:timers/promises";

type Chunk = string | Uint8Array;

/**
 * The only writer of stdout.
 *
 * Session updates are written here directly as text, which is about ten times cheaper than an SDK notification. The
 * SDK's own messages, responses and requests, come through `sdkSink`. Neither waits for the reader, so the order on
 * the wire is the order of the calls. A command that writes a lot awaits `ready()` in between.
 */
export class Output {
  readonly #stream: Writable;
  /** Chunks that wait for the end of `writeBytewise`. */
  #held: Chunk[] | undefined;

  constructor(stream: Writable) {
    this.#stream = stream;
  }

  /** A chunk must end with a whole line, because another session may write next. */
  write(chunk: Chunk): void {
    if (this.#held) this.#held.push(chunk);
    else this.#stream.write(chunk);
  }

  /** Waits until the reader has caught up. It always yields, so that incoming messages are handled too. */
  async ready(): Promise<void> {
    if (this.#stream.writableNeedDrain) {
      await new Promise<void>((resolve) => this.#stream.once("drain", resolve));
    }
    await setImmediate();
  }

  /** Waits until the operating system has everything written so far. */
  flushed(): Promise<void> {
    return new Promise((resolve) => this.#stream.write("", () => resolve()));
  }

  /** Writes a line byte by byte and pauses inside multibyte characters. Other chunks wait meanwhile. */
  async writeBytewise(line: Uint8Array): Promise<void> {
    while (this.#held) await setImmediate();
    this.#held = [];
    for (const byte of line) {
      this.#stream.write(Uint8Array.of(byte));
      await (byte < 0x80 ? setImmediate() : setTimeout(2));
    }
    const held = this.#held;
    this.#held = undefined;
    for (const chunk of held) this.#stream.write(chunk);
  }

  sdkSink(): WritableStream<Uint8Array> {
    return new WritableStream({ write: (chunk) => this.write(chunk) });
  }
}
