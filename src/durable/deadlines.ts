/** Named points in time over the single alarm a Durable Object has. */
export const DEADLINE_SCHEMA =
  "CREATE TABLE IF NOT EXISTS deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL);";

export class Deadlines<Name extends string> {
  readonly #storage: DurableObjectStorage;
  /** What the table says, read when it is first needed. */
  #times: Map<string, number> | undefined;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  set(name: Name, at: number): void {
    this.#known().set(name, at);
    this.#storage.sql.exec(
      "INSERT INTO deadline (name, at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET at = excluded.at",
      name,
      at,
    );
    this.#arm();
  }

  /** For what may happen often and need happen only once by then. */
  setUnlessSet(name: Name, at: number): void {
    if (!this.#known().has(name)) this.set(name, at);
  }

  /** Leaves the alarm as it is: one that finds nothing due costs less than moving it. */
  clear(name: Name): void {
    if (this.#known().delete(name)) this.#storage.sql.exec("DELETE FROM deadline WHERE name = ?", name);
  }

  /** Takes the names that are due and arms the alarm for the rest. Call it from the alarm handler. */
  due(now: number): Name[] {
    this.#times = undefined;
    const due = [...this.#known()].filter(([, at]) => at <= now).sort((a, b) => a[1] - b[1]);
    for (const [name] of due) this.clear(name as Name);
    this.#arm();
    return due.map(([name]) => name as Name);
  }

  #known(): Map<string, number> {
    this.#times ??= new Map(
      this.#storage.sql
        .exec<{ name: string; at: number }>("SELECT name, at FROM deadline")
        .toArray()
        .map(({ name, at }) => [name, at]),
    );
    return this.#times;
  }

  #arm(): void {
    const times = [...this.#known().values()];
    if (times.length > 0) void this.#storage.setAlarm(Math.min(...times));
  }
}
