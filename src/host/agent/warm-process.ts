import { Backoff } from "../../node/backoff.ts";
import type { Timing } from "../../node/timing.ts";
import type { AgentRun } from "./agent-run.ts";

/** One initialized process of an agent, kept warm for the next session. */
export class WarmProcess {
  readonly #start: () => AgentRun | null;
  readonly #timing: Timing;
  readonly #backoff: Backoff;
  #run: AgentRun | null = null;
  #pendingStart: NodeJS.Timeout | undefined;
  #closed = false;

  /** `start` returns null if the host has no room for a warm process. */
  constructor(start: () => AgentRun | null, timing: Timing) {
    this.#start = start;
    this.#timing = timing;
    this.#backoff = new Backoff(timing.warmRetryMinMs, timing.warmRetryMaxMs);
    this.#startNow();
  }

  /** Hands over the process, if there is one, and schedules its successor. */
  take(): AgentRun | null {
    const run = this.#run;
    if (!run?.isLive) return null;
    this.#run = null;
    this.#backoff.reset();
    this.#startAfter(this.#timing.warmDelayMs);
    return run;
  }

  /** Schedules a process if there is none and none is scheduled. */
  refill(): void {
    if (!this.#run && !this.#pendingStart) this.#startAfter(this.#timing.warmDelayMs);
  }

  /** Ends the process to make room; `refill` schedules the next one. */
  evict(): void {
    clearTimeout(this.#pendingStart);
    this.#pendingStart = undefined;
    this.#run?.stop();
    this.#run = null;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#pendingStart);
    this.#run?.stop();
  }

  #startAfter(delayMs: number): void {
    if (this.#closed) return;
    clearTimeout(this.#pendingStart);
    this.#pendingStart = setTimeout(() => this.#startNow(), delayMs);
  }

  #startNow(): void {
    this.#pendingStart = undefined;
    const run = this.#start();
    this.#run = run;
    if (run) void this.#replaceOnExit(run);
  }

  /** Replaces a process that exits while it is idle. A process that never initialized would only fail again. */
  async #replaceOnExit(run: AgentRun): Promise<void> {
    const initialized = await run.initialized;
    await run.exited;
    if (this.#run !== run) return;
    this.#run = null;
    if (initialized && "result" in initialized) this.#startAfter(this.#backoff.next());
  }
}
