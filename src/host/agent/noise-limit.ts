/** When this many lines have been dropped within a second, the agent's output is not read until the next second. */
const FLOOD_LINES = 10_000;

/** Admits a number of noise lines per second, and reports how many more were dropped. */
export class NoiseLimit {
  readonly #perSecond: number;
  readonly #report: (text: string) => void;
  #passed = 0;
  #dropped = 0;
  #calm = Promise.withResolvers<void>();
  #second: NodeJS.Timeout | undefined;

  constructor(perSecond: number, report: (text: string) => void) {
    this.#perSecond = perSecond;
    this.#report = report;
  }

  admit(): boolean {
    this.#second ??= setTimeout(() => this.flush(), 1000);
    if (this.#passed < this.#perSecond) {
      this.#passed++;
      return true;
    }
    this.#dropped++;
    return false;
  }

  /** Whether the agent should not be read for the rest of this second; `calm` resolves at its end. */
  get isFlooded(): boolean {
    return this.#dropped > FLOOD_LINES;
  }

  get calm(): Promise<void> {
    return this.isFlooded ? this.#calm.promise : Promise.resolve();
  }

  /** Ends the current second. */
  flush(): void {
    clearTimeout(this.#second);
    this.#second = undefined;
    const dropped = this.#dropped;
    this.#passed = 0;
    this.#dropped = 0;
    this.#calm.resolve();
    this.#calm = Promise.withResolvers();
    if (dropped > 0) this.#report(`(${dropped} more lines like these were dropped)`);
  }
}
