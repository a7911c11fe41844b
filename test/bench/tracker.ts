export type Faults = { lost: number; repeated: number; reordered: number };

export const noFaults = (): Faults => ({ lost: 0, repeated: 0, reordered: 0 });

export function addFaults(a: Faults, b: Faults): Faults {
  return { lost: a.lost + b.lost, repeated: a.repeated + b.repeated, reordered: a.reordered + b.reordered };
}

/**
 * Follows the numbered updates of one session. An update in order costs one comparison. A skipped number is remembered
 * until it arrives (reordered) or the stream ends (lost).
 */
export class Tracker {
  /** Characters of each update. */
  size = 1;
  #next = 0;
  #expected = 0;
  #skipped = new Set<number>();
  #faults = noFaults();
  #complete = Promise.withResolvers<void>();

  /** Starts over and expects each number below `count` once. Faults add up until they are collected. */
  begin(count: number, size: number): void {
    this.size = size;
    this.#faults.lost += this.#missing;
    this.#next = 0;
    this.#expected = count;
    this.#skipped.clear();
    this.#complete = Promise.withResolvers();
    if (count === 0) this.#complete.resolve();
  }

  /** Resolves when every number was seen. */
  get complete(): Promise<void> {
    return this.#complete.promise;
  }

  see(index: number): void {
    if (index === this.#next && index < this.#expected) this.#next += 1;
    else this.#unexpected(index);
    if (this.#missing === 0) this.#complete.resolve();
  }

  /** The faults so far; numbers not seen yet count as lost. */
  collect(): Faults {
    const faults = { ...this.#faults, lost: this.#faults.lost + this.#missing };
    this.#faults = noFaults();
    this.#next = this.#expected;
    this.#skipped.clear();
    return faults;
  }

  get #missing(): number {
    return this.#expected - this.#next + this.#skipped.size;
  }

  #unexpected(index: number): void {
    if (this.#skipped.delete(index)) {
      this.#faults.reordered += 1;
    } else if (index > this.#next && index < this.#expected) {
      for (let i = this.#next; i < index; i++) this.#skipped.add(i);
      this.#next = index + 1;
    } else {
      // The number was seen before or does not belong to this stream.
      this.#faults.repeated += 1;
    }
  }
}
