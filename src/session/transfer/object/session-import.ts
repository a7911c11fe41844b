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

/** The log of an import. `state` is its fold. */
export type ImportedLog = {
  readonly state: SessionState;
  readonly opening: OpeningRequest | undefined;
  /** Writes the last rows. */
  readonly writeRest: () => void;
};

/**
 * A log that is being written into an object without a session. Rows go to storage as they arrive and become a session
 * only at the end; until then nobody can see them. They are removed after a fault, when the caller ends and so disposes
 * of this, or, after a crash, at the object's next start.
 */
export class SessionImport extends RpcTarget {
  readonly #storage: DurableObjectStorage;
  readonly #tables: Tables;
  readonly #commit: (log: ImportedLog) => void;
  readonly #reader: SegmentReader;
  readonly #writer: RowWriter;
  readonly #state: SessionState;
  #opening: OpeningRequest | undefined;
  #isOver = false;

  constructor(
    { ctx: { storage }, limits, tables }: SessionContext,
    { sessionId, recordId }: ImportOrder,
    commit: (log: ImportedLog) => void,
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
    // After a crash the alarm starts the object, which removes the rows even if nobody asks for the session.
    void storage.setAlarm(Date.now() + limits.importMs);
  }

  /** Takes the next bytes of a segment. */
  write(file: string, bytes: Uint8Array): ImportFault | null {
    return this.#try(() => this.#reader.push(file, bytes));
  }

  /** Makes the rows a session. `claimed` is the last event according to the session archive file; 0 if it names none. */
  finish(claimed: number): ImportFault | { lastSeq: number; imported?: number } {
    const fault = this.#try(() => {
      this.#reader.end();
      const { lastSeq } = this.#reader;
      if (lastSeq < claimed)
        throw new ImportError(
          `the archive says it has ${claimed} events, but the last one is ${lastSeq}`,
          "session.json",
        );
      const writeRest = () => this.#writer.end();
      this.#commit({ state: this.#state, opening: this.#opening, writeRest });
      this.#isOver = true;
    });
    return fault ?? { lastSeq: this.#state.lastSeq, imported: this.#reader.lastSeq };
  }

  /** Removes the rows, unless they have become a session. */
  async abort(): Promise<void> {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#tables.forget();
    await this.#storage.deleteAll();
  }

  [Symbol.dispose](): void {
    void this.abort();
  }

  #try(step: () => void): ImportFault | null {
    if (this.#isOver) throw new Error("The import has ended");
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

/** Whether the object has tables without a session: an import is running, or a crash has ended one. */
export function isStaged(sql: SqlStorage, tables: Tables): boolean {
  return tables.exist && sql.exec("SELECT 1 FROM session").toArray().length === 0;
}
