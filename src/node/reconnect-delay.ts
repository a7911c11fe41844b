import { reachOf } from "../protocol/network-address.ts";
import type { Timing } from "./timing.ts";

type Delays = Pick<Timing, "retryMinMs" | "retryMaxMs" | "spreadMinMs" | "spreadMaxMs" | "localSpreadMs">;

/**
 * How long to wait before a lost socket is dialled again.
 *
 * A gateway that resets an object or is deployed anew cuts all sockets at the same moment, so the first delay after an
 * established socket is spread uniformly, far enough apart for the thousands of clients that a gateway may have. The
 * clients of a gateway on this machine are few and wait for its restart, so theirs is short. Later delays grow and are
 * random from zero on ("full jitter"), so that peers do not come back in step.
 */
export class ReconnectDelay {
  readonly #delays: Delays;
  readonly #isLocal: boolean;
  #failures = 0;

  constructor(url: string, delays: Delays) {
    this.#delays = delays;
    this.#isLocal = isLocal(url);
  }

  /** Whether the delay under way spreads clients, and is none that failures have made long. */
  get isSpread(): boolean {
    return this.#failures === 1;
  }

  /** `wasOpen`: the lost socket was established. */
  next(wasOpen: boolean): number {
    const { retryMinMs, retryMaxMs } = this.#delays;
    const failures = this.#failures;
    this.#failures += 1;
    if (failures === 0 && wasOpen) return this.#spread();
    return Math.min(retryMaxMs, retryMinMs * 2 ** Math.min(failures, 30)) * Math.random();
  }

  /** The gateway has asked for a pause. It may have asked all its clients at the same moment, so their pauses differ. */
  pause(): number {
    return this.#delays.retryMaxMs * (0.5 + Math.random() / 2);
  }

  #spread(): number {
    const { retryMaxMs, spreadMinMs, spreadMaxMs, localSpreadMs } = this.#delays;
    const [min, max] = this.#isLocal ? [0, localSpreadMs] : [spreadMinMs, spreadMaxMs];
    const longest = Math.min(max, retryMaxMs);
    const shortest = Math.min(min, longest);
    return shortest + (longest - shortest) * Math.random();
  }

  /** The gateway has taken or given something, so the next loss is a new one. */
  reset(): void {
    this.#failures = 0;
  }
}

function isLocal(url: string): boolean {
  return URL.canParse(url) && reachOf(new URL(url).hostname) === "loopback";
}
