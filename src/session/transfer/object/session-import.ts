import { RpcTarget } from "cloudflare:workers";
import type { Tables } from "../../../durable/schema.ts";
import type { ImportFault, ImportOrder } from "../../../protocol/rpc.ts";
import { type OpeningRequest, openingRequest } from "../../core/decide/import-events.ts";
import type { EnvelopeLine } from "../../core/events/envelope.ts";
import { apply } from "../../core/state/fold.ts";
import { initialState, type SessionState } from "../../core/state/state.ts";
import { EventLog } from "../../log/event-log.ts";
import type { SessionContext } from "../../session-parts.ts";
import { ImportError } from "../import-error.ts";
import { RowWriter } from "./row-writer.ts";
import { SegmentReader } from "./segment-reader.ts";

/**
 * A log being written into an object that has no session yet. Rows go to storage as they come; they become
 * a session only at the end. Until then there is nothing to be seen, and whatever goes wrong removes them:
 * a fault, the end of the caller (which disposes of this), or, after a crash, the object's next start.
 */
export class SessionImport extends RpcTarget {
  readonly #storage: DurableObjectStorage;
  readonly #tables: Tables;
  readonly #commit: (state: SessionState, opening: OpeningRequest | undefined) => void;
  readonly #reader: SegmentReader;
  readonly #writer: RowWriter;
  readonly #state: SessionState;
  #opening: OpeningRequest | undefined;
  #over = false;

  constructor(
    { ctx: { storage }, limits, tables }: SessionContext,
    { sessionId, recordId }: ImportOrder,
    commit: (state: SessionState, opening: OpeningRequest | undefined) => void,
  ) {
    super();
    this.#storage = storage;
    this.#tables = tables;
    this.#commit = commit;
    const log = new EventLog(storage.sql, limits.rowChars);
    this.#state = initialState(sessionId);
    this.#writer = new RowWriter(sessionId, limits.rowChars, (ids, row) => log.appendRow(ids, row));
    this.#reader = new SegmentReader(recordId, sessionId, limits.importLineBytes, (read) => {
      fold(this.#state, read);
      this.#opening ??= openingRequest(read.event);
      this.#writer.write(read);
    });
    tables.create();
    // Wakes the object should it crash and nobody ever ask for it again.
    void storage.setAlarm(Date.now() + limits.importMs);
  }

  /** The next bytes of a segment. */
  write(file: string, bytes: Uint8Array): ImportFault | null {
    return this.#try(() => this.#reader.push(file, bytes));
  }

  /** All is here: makes it a session. `claimed` is the last event the archive says it has. */
  finish(claimed: number): ImportFault | { lastSeq: number } {
    const fault = this.#try(() => {
      this.#reader.end();
      const { lastSeq } = this.#reader;
      if (lastSeq < claimed)
        throw new ImportError(
          `the archive says it has ${claimed} events, but the last one is ${lastSeq}`,
          "session.json",
        );
      this.#storage.transactionSync(() => {
        this.#writer.end();
        this.#commit(this.#state, this.#opening);
      });
      this.#over = true;
    });
    return fault ?? { lastSeq: this.#state.lastSeq };
  }

  async abort(): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    this.#tables.forget();
    await this.#storage.deleteAll();
  }

  [Symbol.dispose](): void {
    void this.abort();
  }

  #try(step: () => void): ImportFault | null {
    if (this.#over) throw new Error("The import is over");
    try {
      step();
      return null;
    } catch (error) {
      if (error instanceof ImportError) return error.fault;
      throw error;
    }
  }
}

function fold(state: SessionState, { event }: EnvelopeLine): void {
  try {
    apply(state, event);
  } catch (error) {
    throw new Error(`a ${event.kind} event that makes no sense here (${String(error)})`);
  }
}

/** Whether there are tables without a session: of an import that is going on, or that a crash has ended. */
export function isStaged(sql: SqlStorage, tables: Tables): boolean {
  return tables.exist && sql.exec("SELECT 1 FROM session").toArray().length === 0;
}
