import { runInDurableObject } from "cloudflare:test";
import { DurableObject, env } from "cloudflare:workers";
import * as worker from "../../../src/worker.ts";
import { type Bill, NO_BILL } from "../../cost/steps.ts";

/** The name of a class of objects, or `D1`. */
type Payee = string;

/** Handlers that the platform does not bill. */
const FREE: ReadonlySet<string> = new Set(["webSocketClose", "webSocketError"]);

/**
 * Counts billed operations in every object of this isolate, by wrapping the platform's own storage and the objects' own
 * methods. The rows are those that SQLite itself reports for each statement.
 */
export class Meter {
  /** Rows by storage, because a statement does not know the class of its object. */
  readonly #rows = new Map<object, number>();
  readonly #payees = new Map<object, Payee>();
  readonly #calls = new Map<string, number>();
  /** The object whose method runs. A method that it calls of itself is no call between objects. */
  #busy: object | undefined;

  private constructor() {}

  /** `stub` is any object: its storage leads to the prototypes of all storages. */
  static async install(stub: DurableObjectStub): Promise<Meter> {
    const meter = new Meter();
    await runInDurableObject(stub, (_, state) => {
      meter.#wrapStorage(state.storage);
      keepHeartbeats(state);
    });
    for (const [name, value] of Object.entries(worker))
      if (typeof value === "function" && value.prototype instanceof DurableObject)
        meter.#wrapClass(name, value.prototype);
    meter.#wrapIndex();
    return meter;
  }

  /** What `act` costs, by payee. */
  async measure(act: () => Promise<void>): Promise<Map<Payee, Bill>> {
    const before = this.#bills();
    await act();
    const bills = this.#bills();
    for (const [payee, bill] of bills) {
      const { rows = 0, calls = 0, messages = 0 } = before.get(payee) ?? {};
      bills.set(payee, {
        rows: bill.rows - rows,
        calls: bill.calls - calls,
        messages: bill.messages - messages,
      });
    }
    return bills;
  }

  /** How often a method of a class was called so far. */
  callsOf(payee: Payee, method: string): number {
    return this.#calls.get(`${payee}.${method}`) ?? 0;
  }

  #bills(): Map<Payee, Bill> {
    const bills = new Map<Payee, Bill>();
    const add = (payee: Payee, piece: keyof Bill, count: number) => {
      const bill = bills.get(payee) ?? NO_BILL;
      bills.set(payee, { ...bill, [piece]: bill[piece] + count });
    };
    for (const [storage, rows] of this.#rows) {
      const payee = this.#payees.get(storage);
      if (payee === undefined) throw new Error("An object wrote rows before any of its methods was called");
      add(payee, "rows", rows);
    }
    for (const [name, count] of this.#calls) {
      const [payee, method] = name.split(".") as [Payee, string];
      add(payee, method === "webSocketMessage" ? "messages" : "calls", count);
    }
    return bills;
  }

  #add(storage: object, rows: number): void {
    if (rows > 0) this.#rows.set(storage, (this.#rows.get(storage) ?? 0) + rows);
  }

  #wrapStorage(storage: DurableObjectStorage): void {
    wrap(Object.getPrototypeOf(storage.sql), "exec", (exec, sql, args) => {
      const cursor = exec.apply(sql, args) as SqlStorageCursor<Record<string, SqlStorageValue>>;
      this.#add(sql, cursor.rowsWritten);
      return cursor;
    });
    for (const name of ["put", "delete"])
      wrap(Object.getPrototypeOf(storage.kv), name, (method, kv, args) => {
        this.#add(kv, 1);
        return method.apply(kv, args);
      });
    wrap(Object.getPrototypeOf(storage), "setAlarm", (setAlarm, owner, args) => {
      this.#add(owner, 1);
      return setAlarm.apply(owner, args);
    });
  }

  /** An object is constructed for a call, so its first call tells whose the rows of its constructor are. */
  #wrapClass(payee: Payee, prototype: object): void {
    for (const name of Object.getOwnPropertyNames(prototype)) {
      const { value } = Object.getOwnPropertyDescriptor(prototype, name) ?? {};
      if (typeof value !== "function" || name === "constructor") continue;
      wrap(prototype, name, (method, object, args) => {
        const { storage } = (object as { ctx: DurableObjectState }).ctx;
        for (const part of [storage, storage.sql, storage.kv]) this.#payees.set(part, payee);
        const isInner = this.#busy === object;
        const key = `${payee}.${name}`;
        if (!FREE.has(name) && !isInner) this.#calls.set(key, (this.#calls.get(key) ?? 0) + 1);
        const before = this.#busy;
        this.#busy = object;
        try {
          return method.apply(object, args);
        } finally {
          this.#busy = before;
        }
      });
    }
  }

  #wrapIndex(): void {
    const index = {};
    this.#payees.set(index, "D1");
    const add = ({ meta }: D1Result) => this.#add(index, meta.rows_written);
    wrap(Object.getPrototypeOf(env.INDEX), "batch", async (batch, database, args) => {
      const results = (await batch.apply(database, args)) as D1Result[];
      for (const result of results) add(result);
      return results;
    });
    for (const name of ["run", "all"])
      wrap(Object.getPrototypeOf(env.INDEX.prepare("SELECT 1")), name, async (method, statement, args) => {
        const result = (await method.apply(statement, args)) as D1Result;
        add(result);
        return result;
      });
  }
}

/** A test that lets hours pass cannot send the heartbeats of those hours: every peer has sent one just now. */
function keepHeartbeats(state: DurableObjectState): void {
  wrap(Object.getPrototypeOf(state), "getWebSocketAutoResponseTimestamp", () => new Date());
}

type Method = (...args: unknown[]) => unknown;

function wrap(
  prototype: object,
  name: string,
  around: (method: Method, self: object, args: unknown[]) => unknown,
): void {
  const method = Reflect.get(prototype, name) as Method;
  const wrapped = function (this: object, ...args: unknown[]) {
    return around(method, this, args);
  };
  Object.defineProperty(prototype, name, { value: wrapped, configurable: true, writable: true });
}
