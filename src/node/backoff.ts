/** Delays that double from `minMs` to `maxMs`. Half of each delay is random, so that peers do not retry in step. */
export class Backoff {
  readonly #minMs: number;
  readonly #maxMs: number;
  #attempts = 0;

  constructor(minMs: number, maxMs: number) {
    this.#minMs = minMs;
    this.#maxMs = maxMs;
  }

  next(): number {
    const full = Math.min(this.#maxMs, this.#minMs * 2 ** Math.min(this.#attempts++, 30));
    return full * (0.5 + Math.random() / 2);
  }

  reset(): void {
    this.#attempts = 0;
  }
}
