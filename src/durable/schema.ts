/** The tables of one kind of object, in numbered versions. */
export type Schema = {
  /** Names the version in the object's key-value storage; never changes. */
  readonly name: string;
  /** Statements that make the newest version in an object without tables. */
  readonly tables: string;
  /**
   * `upgrades[n - 1]` takes version n to n + 1. Append-only once released: stored objects have any past version.
   * `test/workerd/durable/schema.test.ts` opens each of them.
   */
  readonly upgrades: readonly Upgrade[];
  /**
   * Builds before the first release kept no version number. Storage without a number that has one of these tables is
   * version 1, which stands for all the forms those builds made.
   */
  readonly unnumbered: readonly string[];
};

/** Statements, or a function where the statements depend on the tables found. */
export type Upgrade = string | ((sql: SqlStorage) => void);

/**
 * The tables of one object. Asking whether they exist makes nothing, so that a request for an unknown id leaves no
 * trace in storage.
 */
export class Tables {
  readonly #storage: DurableObjectStorage;
  readonly #schema: Schema;
  readonly #created: () => void;
  #exist: boolean;

  /** Upgrades the tables of an earlier version before anybody reads them. `created` is called when tables were made. */
  constructor(storage: DurableObjectStorage, schema: Schema, created: () => void = () => {}) {
    this.#storage = storage;
    this.#schema = schema;
    this.#created = created;
    const version = this.#storedVersion();
    this.#exist = version > 0;
    if (this.#exist && version < newestVersion(schema)) this.#upgrade(version);
  }

  get exist(): boolean {
    return this.#exist;
  }

  /** Makes the tables unless they exist. */
  create(): void {
    if (this.#exist) return;
    this.#storage.transactionSync(() => {
      this.#storage.sql.exec(this.#schema.tables);
      this.#storeVersion();
    });
    this.#exist = true;
    this.#created();
  }

  /** The owner deleted its storage. */
  forget(): void {
    this.#exist = false;
  }

  #upgrade(from: number): void {
    this.#storage.transactionSync(() => {
      for (const upgrade of this.#schema.upgrades.slice(from - 1)) apply(this.#storage.sql, upgrade);
      this.#storeVersion();
    });
  }

  #storedVersion(): number {
    const { kv, sql } = this.#storage;
    const stored = kv.get<number>(this.#key);
    if (stored !== undefined) return stored;
    return this.#schema.unnumbered.some((table) => hasTable(sql, table)) ? 1 : 0;
  }

  #storeVersion(): void {
    this.#storage.kv.put(this.#key, newestVersion(this.#schema));
  }

  get #key(): string {
    return `schema:${this.#schema.name}`;
  }
}

export function hasTable(sql: SqlStorage, name: string): boolean {
  return sql.exec("SELECT 1 FROM sqlite_master WHERE name = ?", name).toArray().length > 0;
}

export function hasColumn(sql: SqlStorage, table: string, column: string): boolean {
  const found = sql.exec("SELECT 1 FROM pragma_table_info(?) WHERE name = ?", table, column);
  return found.toArray().length > 0;
}

function apply(sql: SqlStorage, upgrade: Upgrade): void {
  if (typeof upgrade === "string") sql.exec(upgrade);
  else upgrade(sql);
}

function newestVersion({ upgrades }: Schema): number {
  return upgrades.length + 1;
}
