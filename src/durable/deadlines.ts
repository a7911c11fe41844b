/** Serves one deadline. A handler may set or clear deadlines, its own included. */
export type DeadlineHandler = () => void | Promise<void>;

/**
 * Work that an object repeats for as long as it is needed. The time of the next round is in memory only, so a round costs
 * no row but that of the alarm. An object that forgot the time makes a round at its next alarm.
 */
export type Rounds = { readonly everyMs: number; isNeeded(): boolean; make(): void | Promise<void> };

/**
 * Named points in time over the single alarm of a Durable Object.
 *
 * A deadline is cleared only after its handler succeeded, so a crash in between repeats the handler: handlers are
 * idempotent. A handler that throws stops no other handler and is tried again with growing pauses. Its failures are
 * counted in its row, because an object is evicted within seconds: pauses that began anew would never grow.
 *
 * A handler may also end its object without an exception. Its deadline is then found overdue, or has failed before: such
 * a deadline is counted and put off before its handler runs, so that other deadlines and the alarm do not depend on it.
 */
export class Deadlines<Name extends string> {
  readonly #storage: DurableObjectStorage;
  readonly #rounds: Rounds | undefined;
  /** When the next round is due; undefined if none is planned, or if the object does not know. */
  #nextRound: number | undefined;
  /** The object has served its alarm since it woke. Before that it cannot know when the last round was made. */
  #hasRun = false;
  /** The rows of the table without the deadlines being served; read when first needed. */
  #times: Map<string, number> | undefined;
  /** Consecutive failures by name; a name without failures is not in the map. */
  readonly #failures = new Map<string, number>();
  /** The alarm comes no later than this. Undefined: not known, or no alarm is set. */
  #armedFor: number | undefined;
  /** While the alarm is being served it is armed once, at the end: some deadlines are still due until then. */
  #isRunning = false;

  constructor(storage: DurableObjectStorage, rounds?: Rounds) {
    this.#storage = storage;
    this.#rounds = rounds;
  }

  /** Rounds are needed, perhaps since now. */
  beginRounds(): void {
    if (this.#nextRound === undefined && this.#rounds?.isNeeded()) this.#arm();
  }

  /** A deadline that is set for this time already costs nothing. */
  set(name: Name, at: number): void {
    const pending = this.#pending();
    if (pending.get(name) === at) return;
    pending.set(name, at);
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
    this.#nextRound = undefined;
    this.#armedFor = undefined;
    this.#failures.clear();
  }

  /** Serves every deadline that is due, the earliest first. Call it from the object's `alarm`. */
  async run(now: number, handlers: Readonly<Record<Name, DeadlineHandler>>): Promise<void> {
    this.#times = undefined;
    const pending = this.#pending();
    // The alarm has come, and no other is set.
    this.#armedFor = undefined;
    const due = [...pending].filter(([, at]) => at <= now).sort((a, b) => a[1] - b[1]);
    this.#isRunning = true;
    for (const [name, at] of due) {
      // An earlier handler moved this deadline, cleared it, or deleted the whole storage.
      if (!this.#isSetFor(name, at)) continue;
      if (at < now - OVERDUE_MS || this.#failures.has(name)) await this.#putOff(name as Name);
      await this.#serve(name as Name, handlers[name as Name]);
    }
    await this.#makeRound(now);
    this.#hasRun = true;
    this.#isRunning = false;
    if (this.#times !== undefined) this.#arm();
  }

  /** Counts a try that may end the object, and makes the next one durable together with an alarm for it. */
  async #putOff(name: Name): Promise<void> {
    const failures = (this.#failures.get(name) ?? 0) + 1;
    const at =
      Date.now() + (failures > MAX_TRIES ? REST_MS : retryDelayMs(failures)) * (1 + Math.random() / 2);
    if (failures > 1)
      console.warn("deadline tried again", { name, failures, next: new Date(at).toISOString() });
    this.#storage.sql.exec("UPDATE deadline SET at = ?, failures = ? WHERE name = ?", at, failures, name);
    const others = [...this.#pending()].flatMap(([other, time]) => (other === name ? [] : time));
    await this.#storage.setAlarm(Math.max(Date.now(), Math.min(at, ...others)));
    await this.#storage.sync();
    // A deadline that succeeds now starts anew.
    this.#failures.set(name, failures - 1);
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
      const hasFailed = this.#failures.delete(name);
      if (this.#times?.has(name) === false) this.#delete(name);
      else if (this.#times && hasFailed) this.#count(name, 0);
    } catch (error) {
      const failures = (this.#failures.get(name) ?? 0) + 1;
      console.error("deadline failed", { name, failures, error: String(error) });
      if (!this.#times) return;
      this.#failures.set(name, failures);
      this.setUnlessSet(name, Date.now() + retryDelayMs(failures) * (1 + Math.random() / 2));
      this.#count(name, failures);
    }
  }

  async #makeRound(now: number): Promise<void> {
    if (!this.#rounds?.isNeeded() || (this.#nextRound ?? now) > now) return;
    this.#nextRound = undefined;
    try {
      await this.#rounds.make();
    } catch (error) {
      console.error("round failed", { error: String(error) });
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
    sql.exec(
      "CREATE TABLE IF NOT EXISTS deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL, failures INTEGER NOT NULL DEFAULT 0)",
    );
    const cursor = sql.exec<{ name: string; at: number; failures?: number }>("SELECT * FROM deadline");
    // Earlier builds counted failures in memory.
    const isOld = !cursor.columnNames.includes("failures");
    const rows = cursor.toArray();
    if (isOld) sql.exec("ALTER TABLE deadline ADD COLUMN failures INTEGER NOT NULL DEFAULT 0");
    this.#failures.clear();
    for (const { name, failures = 0 } of rows) if (failures > 0) this.#failures.set(name, failures);
    this.#armedFor = armedByRows(rows.map(({ at }) => at));
    return new Map(rows.map(({ name, at }) => [name, at]));
  }

  #count(name: string, failures: number): void {
    this.#storage.sql.exec("UPDATE deadline SET failures = ? WHERE name = ?", failures, name);
  }

  #delete(name: Name): void {
    this.#storage.sql.exec("DELETE FROM deadline WHERE name = ?", name);
  }

  /** The alarm is set only for an earlier time: an alarm that comes too early costs less than moving it each time. */
  #arm(): void {
    if (this.#isRunning) return;
    const times = [...this.#pending().values()];
    if (this.#rounds?.isNeeded()) {
      const next = this.#nextRound ?? Date.now() + this.#rounds.everyMs;
      // Otherwise each eviction would put the round off: an object that does not know makes it at its next alarm.
      if (this.#hasRun) this.#nextRound = next;
      times.push(next);
    }
    const at = Math.max(1, Math.min(...times));
    if (times.length === 0 || at >= (this.#armedFor ?? Number.POSITIVE_INFINITY)) return;
    this.#armedFor = at;
    void this.#storage.setAlarm(at);
  }
}

/**
 * The alarm that stored deadlines have: each was set together with an alarm for it. A deadline that is overdue has lost
 * its alarm, because the platform gives up an alarm that fails again and again.
 */
function armedByRows(times: readonly number[]): number | undefined {
  const earliest = Math.min(...times);
  return Number.isFinite(earliest) && earliest > Date.now() ? earliest : undefined;
}

/**
 * A failed deadline is tried again after one second, then two, four … up to five minutes, and up to half as long again,
 * so that objects that failed together do not return together.
 */
export function retryDelayMs(failures: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LONGEST_RETRY_MS);
}

/** The platform repeats a failed alarm after two seconds. An alarm of a busy object may be as late. */
const OVERDUE_MS = 1500;

/** After so many failures a deadline that may end its object is tried once a day: a new release may have mended it. */
const MAX_TRIES = 10;
const REST_MS = 24 * 60 * 60_000;

const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 5 * 60_000;
