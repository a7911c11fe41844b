import { Backoff } from "../../node/backoff.ts";
import type { Timing } from "../../node/timing.ts";
import type { AgentRun } from "./agent-run.ts";

/** One initialized process of an agent, kept warm for the next session. */
export class WarmProcess {
  readonly #start: () => AgentRun | null;
  readonly #timing: Timing;
  readonly #backoff: Backoff;
  #run: AgentRun | null = null;
  #refill: NodeJS.Timeout | undefined;
  #closed = false;

  /** `start` gives null when there is no room for a spare. */
  constructor(start: () => AgentRun | null, timing: Timing) {
    this.#start = start;
    this.#timing = timing;
    this.#backoff = new Backoff(timing.warmRetryMinMs, timing.warmRetryMaxMs);
    this.#fill();
  }

  /** Hands over the process, if there is one, and sees to its successor. */
  take(): AgentRun | null {
    const run = this.#run;
    if (!run?.live) return null;
    this.#run = null;
    this.#backoff.reset();
    this.#fillAfter(this.#timing.warmDelayMs);
    return run;
  }

  /** The agent has been seen to start: worth another try if the last spare did not. */
  encourage(): void {
    if (!this.#run && !this.#refill) this.#fillAfter(this.#timing.warmDelayMs);
  }

  /** Ends the process, for there is no room for it; the next one is made when there is. */
  giveWay(): void {
    clearTimeout(this.#refill);
    this.#refill = undefined;
    this.#run?.stop();
    this.#run = null;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#refill);
    this.#run?.stop();
  }

  #fillAfter(delayMs: number): void {
    if (this.#closed) return;
    clearTimeout(this.#refill);
    this.#refill = setTimeout(() => this.#fill(), delayMs);
  }

  #fill(): void {
    this.#refill = undefined;
    const run = this.#start();
    this.#run = run;
    if (run) void this.#watch(run);
  }

  /** Replaces a spare that dies idle. One that never came up would only fail again. */
  async #watch(run: AgentRun): Promise<void> {
    const initialized = await run.initialized;
    await run.exited;
    if (this.#run !== run) return;
    this.#run = null;
    if (initialized && "result" in initialized) this.#fillAfter(this.#backoff.next());
  }
}
