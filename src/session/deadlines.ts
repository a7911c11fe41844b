/** Named points in time over the single alarm a Durable Object has. */
export const DEADLINE_SCHEMA = "CREATE TABLE deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL);";

export class Deadlines<Name extends string> {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  set(name: Name, at: number): void {
    this.#storage.sql.exec(
      "INSERT INTO deadline (name, at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET at = excluded.at",
      name,
      at,
    );
    this.#arm();
  }

  /** For what may happen often and need happen only once by then. */
  setUnlessSet(name: Name, at: number): void {
    if (this.#storage.sql.exec("SELECT 1 FROM deadline WHERE name = ?", name).toArray().length === 0)
      this.set(name, at);
  }

  /** Leaves the alarm as it is: one that finds nothing due costs less than moving it. */
  clear(name: Name): void {
    this.#storage.sql.exec("DELETE FROM deadline WHERE name = ?", name);
  }

  /** Takes the names that are due and arms the alarm for the rest. Call it from the alarm handler. */
  due(now: number): Name[] {
    const due = this.#storage.sql
      .exec<{ name: Name }>("SELECT name FROM deadline WHERE at <= ? ORDER BY at", now)
      .toArray();
    this.#storage.sql.exec("DELETE FROM deadline WHERE at <= ?", now);
    this.#arm();
    return due.map((row) => row.name);
  }

  #arm(): void {
    const { at } = this.#storage.sql.exec<{ at: number | null }>("SELECT min(at) AS at FROM deadline").one();
    if (at !== null) void this.#storage.setAlarm(at);
  }
}
