/** Tries of the same frames of one connection, each of which may have ended the object. */
type Tried = { first: number; count: number; tries: number };

/**
 * Counts how often the object ended with the same frames of a client in hand, by connection: a frame that ends the
 * object costs the other connections their calls as well, and they come back with frames of their own. Only frames that
 * their connection sends again are counted, so a frame without a loss costs nothing.
 */
export class FrameTries {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Stores that the frames are tried. Resolves to the number of this try when that is durable. */
  async begin(connection: string, first: number, count: number): Promise<number> {
    const { [connection]: known, ...others } = this.#stored();
    const isSame = known?.first === first && known.count === count;
    const tries = isSame ? known.tries + 1 : 1;
    const newest = Object.entries(others).slice(1 - MAX_CONNECTIONS);
    this.#storage.kv.put(KEY, { ...Object.fromEntries(newest), [connection]: { first, count, tries } });
    await this.#storage.sync();
    return tries;
  }

  /** The frames were taken. */
  end(connection: string): void {
    const { [connection]: ended, ...others } = this.#stored();
    if (!ended) return;
    if (Object.keys(others).length > 0) this.#storage.kv.put(KEY, others);
    else this.#storage.kv.delete(KEY);
  }

  #stored(): Record<string, Tried> {
    return this.#storage.kv.get<Record<string, Tried>>(KEY) ?? {};
  }
}

/** Connections that never come back leave a count behind. */
const MAX_CONNECTIONS = 50;

const KEY = "frame-tries";
