/** Serves one deadline. A handler may set or clear deadlines, its own included. */
export type DeadlineHandler = () => void | Promise<void>;

/**
 * Named points in time over the single alarm of a Durable Object.
 *
 * A deadline is cleared only after its handler succeeded, so a crash in between repeats the handler: handlers are
 * idempotent. A handler that throws stops no other handler and is tried again with growing pauses.
 */
export class Deadlines<Name extends string> {
  readonly #storage: DurableObjectStorage;
  /** The rows of the table without the deadlines being served; read when first needed. */
  #times: Map<string, number> | undefined;
  /** Consecutive failures by name. An eviction forgets them and restarts the pauses, which does no harm. */
  readonly #failures = new Map<string, number>();
  /** While the alarm is being served it is armed once, at the end: some deadlines are still due until then. */
  #isRunning = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  set(name: Name, at: number): void {
    this.#pending().set(name, at);
    this.#storage.sql.exec(
      "INSERT INTO deadline (name, at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET at = excluded.at",
      name,
      at,
    );
    this.#arm();
  }

  /** For work that many events ask for and that needs to happen once. */
  setUnlessSet(name: Name, at: number): void {
    if (!this.#pending().has(name)) this.set(name, at);
  }

  /** For the earliest of many times: sets the deadline unless it is set for an earlier time. */
  setAtMost(name: Name, at: number): void {
    if (at < (this.#pending().get(name) ?? Number.POSITIVE_INFINITY)) this.set(name, at);
  }

  /** Leaves the alarm as it is: an alarm that finds nothing due costs less than moving the alarm. */
  clear(name: Name): void {
    if (this.#pending().delete(name)) this.#delete(name);
  }

  /** The owner deleted its storage: deadlines still due in the current `run` are dropped. */
  forget(): void {
    this.#times = undefined;
    this.#failures.clear();
  }

  /** Serves every deadline that is due, the earliest first. Call it from the object's `alarm`. */
  async run(now: number, handlers: Readonly<Record<Name, DeadlineHandler>>): Promise<void> {
    this.#times = undefined;
    const due = [...this.#pending()].filter(([, at]) => at <= now).sort((a, b) => a[1] - b[1]);
    this.#isRunning = true;
    for (const [name, at] of due) {
      // An earlier handler moved this deadline, cleared it, or deleted the whole storage.
      if (!this.#isSetFor(name, at)) continue;
      await this.#serve(name as Name, handlers[name as Name]);
    }
    this.#isRunning = false;
    if (this.#times !== undefined) this.#arm();
  }

  /**
   * While its handler runs, the deadline counts as not set, so the handler and concurrent events can set it anew. Its
   * row stays, so a crash leaves it due.
   */
  async #serve(name: Name, handler: DeadlineHandler | undefined): Promise<void> {
    this.#times?.delete(name);
    try {
      // A name that an earlier build has set and this build does not know is dropped.
      await handler?.();
      this.#failures.delete(name);
      if (this.#times?.has(name) === false) this.#delete(name);
    } catch (error) {
      const failures = (this.#failures.get(name) ?? 0) + 1;
      console.error("deadline failed", { name, failures, error: String(error) });
      if (!this.#times) return;
      this.#failures.set(name, failures);
      this.setUnlessSet(name, Date.now() + retryDelayMs(failures));
    }
  }

  #isSetFor(name: string, at: number): boolean {
    return this.#times?.get(name) === at;
  }

  #pending(): Map<string, number> {
    this.#times ??= this.#read();
    return this.#times;
  }

  #read(): Map<string, number> {
    const { sql } = this.#storage;
    sql.exec("CREATE TABLE IF NOT EXISTS deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL)");
    const rows = sql.exec<{ name: string; at: number }>("SELECT name, at FROM deadline").toArray();
    return new Map(rows.map(({ name, at }) => [name, at]));
  }

  #delete(name: Name): void {
    this.#storage.sql.exec("DELETE FROM deadline WHERE name = ?", name);
  }

  #arm(): void {
    if (this.#isRunning) return;
    const times = [...this.#pending().values()];
    if (times.length > 0) void this.#storage.setAlarm(Math.max(1, Math.min(...times)));
  }
}

/** A failed deadline is tried again after one second, then two, four … and at most every five minutes. */
export function retryDelayMs(failures: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LONGEST_RETRY_MS);
}

const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 5 * 60_000;
