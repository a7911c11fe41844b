import type { Caller, Role } from "../../protocol/caller.ts";
import type { EventCursor } from "../../protocol/cursor.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { ClientPort } from "../../protocol/rpc.ts";
import type { IoClient } from "../core/decide/client-files.ts";
import type { Attachment } from "../core/read/replay.ts";
import type { HistoryArchive } from "../log/history-archive.ts";
import type { Journal } from "../log/journal.ts";
import { ClientCursor } from "./client-cursor.ts";
import type { LogReader } from "./delivery.ts";
import { type Presence, renewPresence } from "./presence.ts";

type Row = {
  connection: string;
  attach: number;
  start: number;
  merge: number;
  received: number;
  about: string;
};
/** The JSON in the column `about`. */
type About = { offers: readonly number[]; presence: Presence; first?: EventCursor; as?: string | undefined };
export type PresentClient = { connection: string; subject: string; role: Role; since: string };

const DELIVERY_ATTEMPTS = 5;

/** The clients attached to a session, each with its cursor over the log. */
export class Clients {
  readonly #sql: SqlStorage;
  readonly #journal: Journal;
  readonly #port: (connection: string) => ClientPort;
  readonly #reportGone: (connection: string) => void;
  readonly #reader: LogReader;
  readonly #cursors = new Map<string, ClientCursor>();
  /** Stubs are kept, because making one takes longer than a call. A broken stub is replaced. */
  readonly #ports = new Map<string, ClientPort>();
  /** Number of each client's last frame. */
  readonly #received = new Map<string, number>();

  /** `reportGone` is called when a client turns out to be gone. */
  constructor(
    sql: SqlStorage,
    journal: Journal,
    archive: HistoryArchive,
    port: (connection: string) => ClientPort,
    reportGone: (connection: string) => void,
    limits: Limits,
  ) {
    this.#sql = sql;
    this.#journal = journal;
    this.#port = port;
    this.#reportGone = reportGone;
    this.#reader = {
      replayChunkChars: limits.replayChunkChars,
      reach: (seq) => archive.reach(seq),
      after: (seq) => journal.after(seq, limits.deliverChars),
      eventAt: (seq) => journal.eventAt(seq),
    };
    if (!journal.state) return;
    for (const { connection, attach, start, merge, received, about } of sql.exec<Row>(
      "SELECT * FROM client",
    )) {
      const { offers, presence, first, as } = JSON.parse(about) as About;
      const attachment = { seq: attach, start, merge: merge === 1, offers, as };
      this.#cursors.set(connection, new ClientCursor(connection, attachment, presence, first));
      this.#received.set(connection, received);
    }
  }

  /** Attaches a client, or attaches it anew. */
  attach(connection: string, attachment: Attachment, presence: Presence): void {
    const before = this.#cursors.get(connection);
    const cursor =
      before?.succeed(attachment, presence) ?? new ClientCursor(connection, attachment, presence);
    this.#cursors.set(connection, cursor);
    this.#sql.exec(
      `INSERT INTO client (connection, attach, start, merge, received, about) VALUES (?, ?, ?, ?, 0, ?)
       ON CONFLICT (connection) DO UPDATE
       SET attach = excluded.attach, start = excluded.start, merge = excluded.merge, about = excluded.about`,
      connection,
      attachment.seq,
      attachment.start,
      attachment.merge ? 1 : 0,
      aboutOf(cursor),
    );
  }

  /** The client continues with another token, and perhaps with other rights. */
  renew(connection: string, caller: Caller): void {
    const cursor = this.#cursors.get(connection);
    if (!cursor) return;
    cursor.presence = renewPresence(cursor.presence, caller);
    this.#sql.exec("UPDATE client SET about = ? WHERE connection = ?", aboutOf(cursor), connection);
  }

  /** The clients that are attached now. */
  present(): PresentClient[] {
    return [...this.#cursors.values()].map(({ connection, presence: { subject, role, since } }) => ({
      connection,
      subject,
      role,
      since: isoTime(since),
    }));
  }

  /** The connections that get the agent's requests. */
  answering(): string[] {
    return [...this.#cursors.values()].flatMap(({ connection, presence }) =>
      presence.answers ? connection : [],
    );
  }

  /** The clients that may serve files and terminals, the latest last. */
  serving(): IoClient[] {
    return [...this.#cursors.values()].flatMap(({ connection, presence: { answers, subscriptions, cwd } }) =>
      answers ? { connection, serves: subscriptions?.serves ?? [], cwd: cwd ?? null } : [],
    );
  }

  has(connection: string): boolean {
    return this.#cursors.has(connection);
  }

  /** Whether the client has been sent everything up to this event. True for a connection that is not attached. */
  hasRead(connection: string, seq: number): boolean {
    const cursor = this.#cursors.get(connection);
    return !cursor || (cursor.position ?? 0) >= seq;
  }

  /** Detaches a client that has not said goodbye: the agent's requests to its files and terminals fail. */
  drop(connection: string): void {
    this.detach(connection);
    this.#reportGone(connection);
  }

  detach(connection: string): void {
    this.#cursors.delete(connection);
    this.#ports.delete(connection);
    this.#received.delete(connection);
    this.#sql.exec("DELETE FROM client WHERE connection = ?", connection);
  }

  forget(): void {
    this.#cursors.clear();
    this.#received.clear();
  }

  /** Number of the client's last frame. */
  lastReceived(connection: string): number {
    return this.#received.get(connection) ?? 0;
  }

  setReceived(connection: string, last: number): void {
    this.#received.set(connection, last);
    this.#sql.exec("UPDATE client SET received = ? WHERE connection = ?", last, connection);
  }

  /** The event that every reading client has reached. Clients that are further behind read from storage anyway. */
  slowest(): number {
    const positions = [...this.#cursors.values()].flatMap((cursor) => cursor.position ?? []);
    return Math.min(Number.POSITIVE_INFINITY, ...positions);
  }

  /** Lets every cursor deliver new events, each at its own pace. */
  feed(): void {
    for (const cursor of this.#cursors.values()) void this.#feed(cursor);
  }

  /** The client has room again, or continues from another place. */
  wake(connection: string): void {
    const cursor = this.#cursors.get(connection);
    cursor?.wake();
    if (cursor) void this.#feed(cursor);
  }

  async #feed(cursor: ClientCursor): Promise<void> {
    const { connection } = cursor;
    for (let attempt = 0; this.#cursors.get(connection) === cursor; attempt += 1) {
      const sessionId = this.#journal.state?.sessionId;
      if (sessionId === undefined) return;
      try {
        const isPresent = await cursor.pump(sessionId, this.#portOf(connection), this.#reader);
        if (isPresent || this.#cursors.get(connection) !== cursor) return;
        return this.drop(connection);
      } catch (error) {
        this.#ports.delete(connection);
        // The connection's object was reset. If it does not come back soon, the next event tries again.
        console.warn("delivery interrupted", { sessionId, connection, attempt, error: String(error) });
        if (attempt === DELIVERY_ATTEMPTS) return;
        await scheduler.wait(50 * 2 ** attempt);
      }
    }
  }

  #portOf(connection: string): ClientPort {
    const port = this.#ports.get(connection) ?? this.#port(connection);
    this.#ports.set(connection, port);
    return port;
  }
}

function aboutOf({ attachment: { offers, as }, presence, first }: ClientCursor): string {
  return JSON.stringify({ offers, presence, first, as } satisfies About);
}
