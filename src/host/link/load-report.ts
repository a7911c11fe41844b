import { freemem, loadavg } from "node:os";
import type { Timing } from "../../node/timing.ts";
import type { HostLoad } from "../../protocol/host-wire.ts";

/** Reports the load of this host: after each change, and periodically while agents run. */
export class LoadReport {
  readonly #timing: Timing;
  readonly #runs: () => number;
  readonly #send: (load: HostLoad) => void;
  #soon: NodeJS.Timeout | undefined;
  #sent = -1;

  constructor(timing: Timing, runs: () => number, send: (load: HostLoad) => void) {
    this.#timing = timing;
    this.#runs = runs;
    this.#send = send;
  }

  get current(): HostLoad {
    return {
      runs: this.#runs(),
      loadAverage: Math.round((loadavg()[0] ?? 0) * 100) / 100,
      freeMemory: freemem(),
    };
  }

  /** Schedules a report, because the number of runs may have changed. */
  touch(): void {
    this.#schedule(this.#timing.loadDelayMs);
  }

  close(): void {
    clearTimeout(this.#soon);
  }

  #schedule(ms: number): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => this.#report(), ms).unref();
  }

  #report(): void {
    const load = this.current;
    if (load.runs > 0 || load.runs !== this.#sent) this.#send(load);
    this.#sent = load.runs;
    if (load.runs > 0) this.#schedule(this.#timing.loadEveryMs);
  }
}
