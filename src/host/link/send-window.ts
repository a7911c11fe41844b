/** The time of a window. Tests let it pass by themselves. */
export type WindowClock = {
  now(): number;
  /** Runs `act` after `ms`, and returns a function that prevents it. */
  after(ms: number, act: () => void): () => void;
};

const SYSTEM_CLOCK: WindowClock = {
  now: () => performance.now(),
  after: (ms, act) => {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

/** Waiting characters that leave at once: a longer message would save too little to be worth the wait. */
export const FULL_CHARS = 64 * 1024;

/**
 * Decides when the items of an agent leave the host. Each message costs the session a write, and each client a delivery,
 * so streamed items leave in one message per window. Nobody waits for the window: the first item after a pause, and the
 * first after the agent was given something, leave at once. So do urgent items, with all items before them.
 */
export class SendWindow {
  /** Length of the window in milliseconds; 0 holds nothing back. */
  ms: number;
  readonly #release: () => void;
  readonly #clock: WindowClock;
  /** From this time on, an item leaves at once. */
  #opensAt = Number.NEGATIVE_INFINITY;
  #isOpen = false;
  #waitingChars = 0;
  #cancelTimer: (() => void) | undefined;

  /** `release` is called when items may leave: send them, then call `close`. */
  constructor(ms: number, release: () => void, clock: WindowClock = SYSTEM_CLOCK) {
    this.ms = ms;
    this.#release = release;
    this.#clock = clock;
  }

  /** Whether items may leave now. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Items of so many characters together wait to leave. */
  add(chars: number, isUrgent: boolean): void {
    this.#waitingChars += chars;
    if (this.#isOpen) return;
    const waitMs = this.#opensAt - this.#clock.now();
    if (isUrgent || this.ms === 0 || waitMs <= 0 || this.#waitingChars >= FULL_CHARS) this.open();
    else this.#cancelTimer ??= this.#clock.after(waitMs, () => this.open());
  }

  /** Lets everything that waits leave. */
  open(): void {
    this.#stopTimer();
    this.#isOpen = true;
    this.#release();
  }

  /** All items have left. */
  close(): void {
    this.#stopTimer();
    this.#isOpen = false;
    this.#waitingChars = 0;
    this.#opensAt = this.#clock.now() + this.ms;
  }

  /** The agent was given something: its first reaction leaves at once. */
  expectReaction(): void {
    this.#opensAt = Number.NEGATIVE_INFINITY;
  }

  #stopTimer(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }
}
