import { LIMITS } from "../protocol/limits.ts";

/** What a buffered item costs besides its text, so that a flood of tiny lines counts for what it takes. */
const ITEM_OVERHEAD = 64;

/**
 * The items of one run, numbered from 1, kept until the session has them in its log.
 * Whoever fills it must stop when it is `full` and wait until there is `room` again.
 */
export class NumberedOutbox {
  /** Called after items came in. */
  onPush: () => void = () => {};
  readonly #windowChars: number;
  #items: string[] = [];
  /** Acknowledged items still at the front of the array; cutting them off one by one would be quadratic. */
  #stale = 0;
  #acked = 0;
  #chars = 0;
  #discarding = false;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(windowChars: number = LIMITS.hostWindowChars) {
    this.#windowChars = windowChars;
  }

  /** Number of the last item put in. */
  get last(): number {
    return this.#acked + this.#items.length - this.#stale;
  }

  /** Number of the last item the session has. */
  get acked(): number {
    return this.#acked;
  }

  get full(): boolean {
    return this.#chars > this.#windowChars;
  }

  /** Resolves at once unless it is full; then, when acknowledgements have emptied it to half. */
  room(): Promise<void> {
    if (!this.full) return Promise.resolve();
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  push(items: readonly string[]): void {
    if (items.length === 0 || this.#discarding) return;
    for (const item of items) {
      this.#items.push(item);
      this.#chars += item.length + ITEM_OVERHEAD;
    }
    this.onPush();
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

  /** All that has not been acknowledged. */
  rest(): string[] {
    return this.#items.slice(this.#stale);
  }

  /** Starts over with these, numbered from 1. */
  renumber(items: readonly string[]): void {
    this.ack(this.last);
    this.#items = [];
    this.#stale = 0;
    this.#acked = 0;
    this.push(items);
  }

  /** Nobody will ask for these items: forget them, and those to come. */
  discard(): void {
    this.#discarding = true;
    this.ack(this.last);
  }

  /** The items after number `after` that fit in one message: at least one, if there is any. */
  batch(after: number): string[] {
    const start = this.#stale + after - this.#acked;
    let end = start;
    for (let chars = 0; end < this.#items.length; end++) {
      chars += (this.#items[end] as string).length + 1;
      if (chars > LIMITS.linkBatchChars && end > start) break;
    }
    return this.#items.slice(start, end);
  }
}
