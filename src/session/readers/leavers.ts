import type { Left } from "../../protocol/rpc.ts";

/** The departure of a client: the number of the message by which it left, and the requests that it left open. */
export type Departure = Pick<Left, "open"> & { readonly number: number };

type Leaver = Departure & { readonly connection: string };

/**
 * The clients that left the session and kept their connections. A connection that got no answer sends its messages
 * again, and the numbers tell that the session has them.
 */
export class Leavers {
  readonly #kv: SyncKvStorage;

  constructor(kv: SyncKvStorage) {
    this.#kv = kv;
  }

  add({ connection, number, open }: Leaver): void {
    const others = this.#all().filter((leaver) => leaver.connection !== connection);
    const leaver = { connection, number, open: open.slice(0, KEPT_OPEN) };
    this.#kv.put(LEAVERS, [...others.slice(1 - KEPT), leaver] satisfies Leaver[]);
  }

  find(connection: string): Departure | undefined {
    return this.#all().find((leaver) => leaver.connection === connection);
  }

  #all(): readonly Leaver[] {
    return this.#kv.get<Leaver[]>(LEAVERS) ?? [];
  }
}

const LEAVERS = "clients-that-left";
/** A connection repeats a message within minutes. */
const KEPT = 50;
/** Requests per client: a value of the storage has a limit. */
const KEPT_OPEN = 20;
