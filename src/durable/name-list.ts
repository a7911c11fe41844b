/** A list of names in an object's key-value storage, in the order of the names. It grows, so it is read in pages. */
export class NameList {
  readonly #kv: SyncKvStorage;
  readonly #prefix: string;

  constructor(kv: SyncKvStorage, prefix: string) {
    this.#kv = kv;
    this.#prefix = prefix;
  }

  /** Adds a name; writes nothing if the list has it. */
  add(name: string): void {
    const key = this.#prefix + name;
    if (this.#kv.get(key) === undefined) this.#kv.put(key, true);
  }

  remove(name: string): void {
    this.#kv.delete(this.#prefix + name);
  }

  /** The names after `after`, at most so many. */
  page(after: string | null, limit: number): string[] {
    const start = after === null ? {} : { startAfter: this.#prefix + after };
    const found = this.#kv.list({ prefix: this.#prefix, ...start, limit });
    return Array.from(found, ([key]) => key.slice(this.#prefix.length));
  }
}
