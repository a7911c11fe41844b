import type { Limits } from "../protocol/limits.ts";

/** Memory of a buffered item besides its text, in characters, so that a flood of tiny items fills the window too. */
const ITEM_OVERHEAD = 64;

/**
 * Items numbered from 1 that are kept until the receiver has acknowledged them.
 * A producer must stop when the outbox `isFull` and wait for `room`.
 */
export class NumberedOutbox {
  /** Called after items of so many characters together were added. Somebody waits for urgent ones. */
  onPush: (chars: number, isUrgent: boolean) => void = () => {};
  readonly #windowChars: number;
  readonly #batchChars: number;
  #items: string[] = [];
  /** Number of acknowledged items that are still at the front of the array; removing each one would be quadratic. */
  #stale = 0;
  #acked = 0;
  #chars = 0;
  #discarding = false;
  #room: PromiseWithResolvers<void> | undefined;

  constructor({ hostWindowChars, linkBatchChars }: Pick<Limits, "hostWindowChars" | "linkBatchChars">) {
    this.#windowChars = hostWindowChars;
    this.#batchChars = linkBatchChars;
  }

  /** Number of the last item added. */
  get last(): number {
    return this.#acked + this.#items.length - this.#stale;
  }

  /** Number of the last item that the receiver has acknowledged. */
  get acked(): number {
    return this.#acked;
  }

  get isFull(): boolean {
    return this.#chars > this.#windowChars;
  }

  /** Resolves immediately unless the outbox is full; otherwise once acknowledgements have halved its contents. */
  room(): Promise<void> {
    if (!this.isFull) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  push(items: readonly string[], isUrgent = true): void {
    if (items.length === 0 || this.#discarding) return;
    const before = this.#chars;
    for (const item of items) {
      this.#items.push(item);
      this.#chars += item.length + ITEM_OVERHEAD;
    }
    this.onPush(this.#chars - before, isUrgent);
  }

  ack(received: number): void {
    const upTo = Math.min(received, this.last);
    if (upTo <= this.#acked) return;
    for (; this.#acked < upTo; this.#acked++) {
      this.#chars -= (this.#items[this.#stale] as string).length + ITEM_OVERHEAD;
      this.#items[this.#stale++] = "";
    }
    if (this.#stale * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#stale);
      this.#stale = 0;
    }
    if (this.#room && this.#chars <= this.#windowChars / 2) {
      this.#room.resolve();
      this.#room = undefined;
    }
  }

  /** All items that have not been acknowledged. */
  unacknowledged(): string[] {
    return this.#items.slice(this.#stale);
  }

  /** Replaces the contents by these items, numbered from 1. */
  renumber(items: readonly string[]): void {
    this.ack(this.last);
    this.#items = [];
    this.#stale = 0;
    this.#acked = 0;
    this.push(items);
  }

  /** Forgets all items, and ignores future ones: the receiver does not want them. */
  discard(): void {
    this.#discarding = true;
    this.ack(this.last);
  }

  /** The items after number `after` that fit in one message; at least one item unless there is none. */
  batch(after: number): string[] {
    const start = this.#stale + after - this.#acked;
    let end = start;
    for (let chars = 0; end < this.#items.length; end++) {
      chars += (this.#items[end] as string).length + 1;
      if (chars > this.#batchChars && end > start) break;
    }
    return this.#items.slice(start, end);
  }
}
