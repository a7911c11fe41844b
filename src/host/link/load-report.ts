import { freemem, loadavg } from "node:os";
import type { Timing } from "../../node/timing.ts";
import type { HostLoad } from "../../protocol/host-wire.ts";

/** Reports the load of this host: after each change of its runs, and while agents run after noticeable changes. */
export class LoadReport {
  readonly #timing: Timing;
  readonly #runs: () => number;
  readonly #send: (load: HostLoad) => void;
  #soon: NodeJS.Timeout | undefined;
  #sent: HostLoad | undefined;

  constructor(timing: Timing, runs: () => number, send: (load: HostLoad) => void) {
    this.#timing = timing;
    this.#runs = runs;
    this.#send = send;
  }

  /** The current load, for the greeting on a new socket. */
  greet(): HostLoad {
    this.#sent = this.#measure();
    return this.#sent;
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

  #measure(): HostLoad {
    return {
      runs: this.#runs(),
      loadAverage: Math.round((loadavg()[0] ?? 0) * 100) / 100,
      freeMemory: freemem(),
    };
  }

  #report(): void {
    const load = this.#measure();
    if (this.#sent === undefined || isNoticeable(this.#sent, load)) {
      this.#send(load);
      this.#sent = load;
    }
    if (load.runs > 0) this.#schedule(this.#timing.loadEveryMs);
  }
}

/** Whether a workspace would want to know: a report wakes its object. Heartbeats show that the host is alive. */
export function isNoticeable(before: HostLoad, now: HostLoad): boolean {
  if (before.runs !== now.runs) return true;
  const isBusier = Math.abs(now.loadAverage - before.loadAverage) > Math.max(0.5, 0.25 * before.loadAverage);
  return isBusier || Math.abs(now.freeMemory - before.freeMemory) > 0.2 * before.freeMemory;
}
