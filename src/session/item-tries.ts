/** Tries of the same items, each of which ended the object. */
type Tried = { run: string; item: number; count: number; tries: number };

/**
 * Counts how often the object ended with the same items of a host in hand. An object that runs out of memory ends without
 * an exception, so a try is stored before it begins. Only the first message of a host that came back is counted: a stream
 * without a loss costs nothing.
 */
export class ItemTries {
  readonly #storage: DurableObjectStorage;
  #isExpected = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** A host came back. It repeats the items that were not acknowledged. */
  expect(): void {
    this.#isExpected = true;
  }

  /** Whether the next items have to be counted: true once after each `expect`. */
  areNext(): boolean {
    const isExpected = this.#isExpected;
    this.#isExpected = false;
    return isExpected;
  }

  /** Stores that the items are tried. Resolves to the number of this try when that is durable. */
  async begin(run: string, item: number, count: number): Promise<number> {
    const { kv } = this.#storage;
    const known = kv.get<Tried>(KEY);
    const isSame = known?.run === run && known.item === item && known.count === count;
    const tries = isSame ? known.tries + 1 : 1;
    kv.put<Tried>(KEY, { run, item, count, tries });
    await this.#storage.sync();
    return tries;
  }

  /** The items were taken. */
  end(): void {
    this.#storage.kv.delete(KEY);
  }
}

const KEY = "item-tries";
