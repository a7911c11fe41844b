import { retryDelayMs } from "../durable/deadlines.ts";
import { callObject } from "../durable/object-call.ts";
import { workspaceObject } from "../durable/objects.ts";
import { within } from "../durable/within.ts";
import { removeSession } from "../index/session-index.ts";
import { removeArchive } from "./log/archive-files.ts";

/** A deleted session that others still know of. */
type RemovalOrder = {
  readonly tenant: string;
  readonly workspace: string;
  readonly sessionId: string;
  /** The last event of the log: every process request of the session is over. */
  readonly lastSeq: number;
  readonly failures: number;
};

/**
 * The end of a deleted session. Its row in the index, its files in the archive and its placement are in other hands,
 * which may be out of reach, so the order to remove them stays in storage until all are gone: otherwise the session would
 * be listed for ever. Until then the object holds no session and takes none in: the order would remove what belongs to
 * the new session.
 */
export class Removal {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  #order: RemovalOrder | undefined;
  #proceeding: Promise<void> | undefined;
  /** Writes of the session that were under way at its end. They end with the object, so nothing is restored. */
  #written: Promise<unknown> | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#env = env;
    this.#order = ctx.storage.kv.get<RemovalOrder>(ORDER);
  }

  get isUnderWay(): boolean {
    return this.#order !== undefined;
  }

  /**
   * Has to be called in the step that forgets the session. If the object ends before the work is done, its alarm goes on.
   * `written` settles when no write of the session's row, or of its files in the archive, is under way.
   */
  async begin(order: Omit<RemovalOrder, "failures">, written: Promise<unknown>): Promise<void> {
    this.#store({ ...order, failures: 0 });
    this.#written = written;
    await this.proceed();
  }

  /** One call works at a time: a second one could end after another session has begun here. */
  async proceed(): Promise<void> {
    this.#proceeding ??= this.#proceed().finally(() => {
      this.#proceeding = undefined;
    });
    await this.#proceeding;
  }

  async #proceed(): Promise<void> {
    const order = this.#order;
    if (!order) return;
    const { tenant, workspace, sessionId, lastSeq, failures } = order;
    try {
      await this.#awaitWritten();
      await allDone([
        removeSession(this.#env.INDEX, { tenant, sessionId }),
        this.#env.ARCHIVE && removeArchive(this.#env.ARCHIVE, tenant, sessionId),
        callObject(
          () => workspaceObject(this.#env, tenant, workspace),
          (object) => object.release(sessionId, lastSeq, { isDeleted: true }),
        ),
      ]);
    } catch (error) {
      console.error("deleted session not removed", { sessionId, failures, error: String(error) });
      this.#erase();
      return this.#store({ ...order, failures: failures + 1 });
    }
    await this.#ctx.storage.deleteAll();
    this.#order = undefined;
  }

  /**
   * The history goes at once, whatever is out of reach. The order stays in storage at every moment. Tables that are being
   * read cannot be dropped, so they stay without rows, and their version stays with them.
   */
  #erase(): void {
    const { kv, sql } = this.#ctx.storage;
    const tables = sql
      .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray();
    const own = tables.filter(({ name }) => !/^(?:sqlite|_cf)_/.test(name));
    for (const { name } of own) sql.exec(`DELETE FROM "${name}"`);
    const keys = [...kv.list()].map(([key]) => key);
    for (const key of keys) if (key !== ORDER && !key.startsWith(VERSION)) kv.delete(key);
  }

  /** A write that ended after the removal would bring the session's row or files back. */
  async #awaitWritten(): Promise<void> {
    const ended = this.#written?.then(() => true);
    if (ended && !(await within(WRITTEN_MS, ended))) throw new Error("a write of the session is under way");
    this.#written = undefined;
  }

  #store(order: RemovalOrder): void {
    this.#order = order;
    this.#ctx.storage.kv.put(ORDER, order);
    void this.#ctx.storage.setAlarm(Date.now() + retryDelayMs(order.failures + 1));
  }
}

/** Waits for all, and fails if any has failed: one that is out of reach holds up no other. */
async function allDone(works: readonly unknown[]): Promise<void> {
  const failed = (await Promise.allSettled(works)).find(({ status }) => status === "rejected");
  if (failed?.status === "rejected") throw failed.reason;
}

/** A write that takes longer is waited for at the next try. */
const WRITTEN_MS = 10_000;

const ORDER = "removal";
/** Keys of the versions of tables, see `durable/schema.ts`. */
const VERSION = "schema:";
