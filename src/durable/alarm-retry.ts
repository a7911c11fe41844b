import { retryDelayMs } from "./deadlines.ts";

/**
 * The alarm of an object that could not be loaded. The platform gives an alarm up that fails some times, and with it all
 * deadlines of the object, so a failed alarm is set again here, with growing pauses.
 */
export class AlarmRetry {
  readonly #storage: DurableObjectStorage;
  /** Consecutive failures. An eviction forgets them, so the first pause is long enough to be repeated. */
  #failures = 0;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Loads the object for its alarm; undefined if that failed, or if there is nothing to load. */
  async load<T>(load: () => Promise<T | undefined>): Promise<T | undefined> {
    try {
      const loaded = await load();
      this.#failures = 0;
      return loaded;
    } catch (error) {
      this.#failures += 1;
      console.error("object not loaded", { failures: this.#failures, error: String(error) });
      const pauseMs = Math.max(SHORTEST_PAUSE_MS, retryDelayMs(this.#failures));
      await this.#storage.setAlarm(Date.now() + pauseMs * (1 + Math.random() / 2));
      return undefined;
    }
  }
}

const SHORTEST_PAUSE_MS = 30_000;
