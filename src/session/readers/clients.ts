import { isOverloaded, orSilent, pauseMs } from "../../durable/object-call.ts";
import type { Caller, Role } from "../../protocol/caller.ts";
import type { ClientAbility } from "../../protocol/client-abilities.ts";
import type { EventCursor } from "../../protocol/cursor.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Refused } from "../../protocol/refusal.ts";
import type { ClientPort } from "../../protocol/rpc.ts";
import type { IoClient } from "../core/decide/client-files.ts";
import type { Attachment } from "../core/read/replay.ts";
import type { HistoryArchive } from "../log/history-archive.ts";
import type { Journal } from "../log/journal.ts";
import { ClientCursor } from "./client-cursor.ts";
import type { LogReader } from "./delivery.ts";
import { type Departure, Leavers } from "./leavers.ts";
import { PageRoom } from "./page-room.ts";
import { type Places, placeRefusal } from "./places.ts";
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

/** Tries of a delivery at once. A client that stays unreachable is tried again by a deadline. */
const DELIVERY_TRIES = 3;

/** `gone`: a client turned out to be gone. `unreachable`: some client has to be tried again, by `redeliver`. */
type Reports = { gone(connection: string): void; unreachable(): void };

/** The clients attached to a session, each with its cursor over the log. */
export class Clients {
  readonly #sql: SqlStorage;
  readonly #leavers: Leavers;
  readonly #journal: Journal;
  readonly #port: (connection: string) => ClientPort;
  readonly #report: Reports;
  readonly #callMs: number;
  readonly #reader: LogReader;
  readonly #places: Places;
  readonly #cursors = new Map<string, ClientCursor>();
  /** The cursors that the input under way replaces, until it is recorded; undefined for a client that is new. */
  readonly #replaced = new Map<string, ClientCursor | undefined>();
  /** Stubs are kept, because making one takes longer than a call. A broken stub is replaced. */
  readonly #ports = new Map<string, ClientPort>();
  /** Number of each client's last frame. */
  readonly #received = new Map<string, number>();

  constructor(
    { sql, kv }: Pick<DurableObjectStorage, "sql" | "kv">,
    journal: Journal,
    archive: HistoryArchive,
    port: (connection: string) => ClientPort,
    report: Reports,
    limits: Limits,
  ) {
    this.#sql = sql;
    this.#leavers = new Leavers(kv);
    this.#journal = journal;
    this.#port = port;
    this.#report = report;
    this.#callMs = limits.callMs;
    this.#places = { all: limits.clientsPerSession, byLink: limits.linkClientsPerSession };
    this.#reader = {
      pageChars: limits.deliverChars,
      replayChunkChars: limits.replayChunkChars,
      after: (seq) => archive.read(seq, () => journal.after(seq, limits.deliverChars)),
      eventAt: (seq) => journal.eventAt(seq) ?? journal.log.read(seq - 1, 0)[0],
      archivedAt: (seq) => archive.eventAt(seq),
      room: new PageRoom(limits.pagesInFlightChars, () => scheduler.wait(limits.pageWaitMs)),
    };
    if (journal.state) this.restore();
  }

  /** The input under way is recorded. The cursors that it replaced stop. */
  commit(): void {
    for (const [connection, earlier] of this.#replaced)
      if (earlier) this.#cursors.get(connection)?.supersede(earlier);
    this.#replaced.clear();
  }

  /** Makes the clients what storage says: at the start, and after an input that was not recorded. */
  restore(): void {
    // The replaced cursors have not stopped, and go on from where they are.
    for (const [connection, earlier] of this.#replaced) if (earlier) this.#cursors.set(connection, earlier);
    this.#replaced.clear();
    const rows = this.#sql.exec<Row>("SELECT * FROM client").toArray();
    const stored = new Set(rows.map(({ connection }) => connection));
    for (const connection of this.#cursors.keys())
      if (!stored.has(connection)) this.#cursors.delete(connection);
    this.#received.clear();
    for (const { connection, attach, start, merge, received, about } of rows) {
      this.#received.set(connection, received);
      const { offers, presence, first, as } = JSON.parse(about) as About;
      const known = this.#cursors.get(connection);
      if (known) {
        known.presence = presence;
        continue;
      }
      const attachment = { seq: attach, start, merge: merge === 1, offers, as };
      this.#cursors.set(connection, new ClientCursor(connection, attachment, presence, first));
    }
  }

  /** Attaches a client, or attaches it anew. An earlier cursor of the client goes on until `commit`. */
  attach(connection: string, attachment: Attachment, presence: Presence): void {
    const before = this.#cursors.get(connection);
    const cursor = new ClientCursor(connection, attachment, presence, before?.first);
    if (!this.#replaced.has(connection)) this.#replaced.set(connection, before);
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

  /** A client that attached before it opened the session names its directory with the opening. */
  setDirectory(connection: string, cwd: string): void {
    const cursor = this.#cursors.get(connection);
    if (!cursor || cursor.presence.cwd === cwd) return;
    cursor.presence = { ...cursor.presence, cwd };
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

  /** The refusal of a client for which there is no place. A client that is attached keeps its place. */
  placeRefusal(connection: string, caller: Caller): Refused | undefined {
    if (this.has(connection)) return undefined;
    const byLink = [...this.#cursors.values()].filter(({ presence }) => presence.link === true).length;
    const owner = this.#journal.state?.identity?.owner;
    return placeRefusal(caller, owner, { all: this.#cursors.size, byLink }, this.#places, "clients");
  }

  /** The connections that may steer the session. */
  controllers(): string[] {
    return [...this.#cursors.values()].flatMap(({ connection, presence: { role } }) =>
      role === "controller" ? connection : [],
    );
  }

  /** The connections that get the agent's requests. */
  answering(): string[] {
    return [...this.#cursors.values()].flatMap(({ connection, presence }) =>
      presence.answers ? connection : [],
    );
  }

  /** What the client can show and answer beyond the baseline of ACP. */
  abilitiesOf(connection: string): readonly ClientAbility[] {
    return this.#cursors.get(connection)?.presence.subscriptions?.abilities ?? [];
  }

  /** The clients that may serve files and terminals, the latest last. */
  serving(): IoClient[] {
    return [...this.#cursors.values()].flatMap(({ connection, presence: { answers, subscriptions, cwd } }) =>
      answers
        ? {
            connection,
            serves: subscriptions?.serves ?? [],
            abilities: subscriptions?.abilities ?? [],
            cwd: cwd ?? null,
          }
        : [],
    );
  }

  get isEmpty(): boolean {
    return this.#cursors.size === 0;
  }

  has(connection: string): boolean {
    return this.#cursors.has(connection);
  }

  attachmentOf(connection: string): Attachment | undefined {
    return this.#cursors.get(connection)?.attachment;
  }

  /** Whether the client has been sent everything up to this event. True for a connection that is not attached. */
  hasRead(connection: string, seq: number): boolean {
    const cursor = this.#cursors.get(connection);
    return !cursor || (cursor.position ?? 0) >= seq;
  }

  /** Detaches a client that has not said goodbye: the agent's requests to its files and terminals fail. */
  drop(connection: string): void {
    this.detach(connection);
    this.#report.gone(connection);
  }

  /**
   * Detaches a client that keeps its connection, which may repeat messages from before. Resolves when no page is on its
   * way to the connection any more.
   */
  async leave(connection: string, departure: Departure): Promise<void> {
    const cursor = this.#cursors.get(connection);
    this.#leavers.add({ ...departure, connection });
    this.detach(connection);
    await cursor?.stop();
  }

  /** The departure of a client that has not come back since. */
  departureOf(connection: string): Departure | undefined {
    return this.has(connection) ? undefined : this.#leavers.find(connection);
  }

  detach(connection: string): void {
    this.#cursors.delete(connection);
    this.#ports.delete(connection);
    this.#received.delete(connection);
    this.#sql.exec("DELETE FROM client WHERE connection = ?", connection);
  }

  forget(): void {
    this.#cursors.clear();
    this.#replaced.clear();
    this.#received.clear();
  }

  /** Number of the client's last frame. */
  lastReceived(connection: string): number {
    return this.#received.get(connection) ?? this.#leavers.find(connection)?.number ?? 0;
  }

  setReceived(connection: string, last: number): void {
    this.#received.set(connection, last);
    this.#sql.exec("UPDATE client SET received = ? WHERE connection = ?", last, connection);
  }

  /** The event that every reading client has reached. Clients that are further behind read from storage anyway. */
  slowest(): number {
    let slowest = Number.POSITIVE_INFINITY;
    for (const { position } of this.#cursors.values()) slowest = Math.min(slowest, position ?? slowest);
    return slowest;
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

  /** Serves a deadline: gives the clients that could not be reached what they have missed. */
  async redeliver(): Promise<void> {
    const results = await Promise.all([...this.#cursors.values()].map((cursor) => this.#tryFeed(cursor)));
    const failed = results.filter((error) => error !== undefined);
    if (failed.length > 0) throw new AggregateError(failed, `${failed.length} clients not reached`);
  }

  async #feed(cursor: ClientCursor): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const error = await this.#tryFeed(cursor);
      if (error === undefined) return;
      console.warn("delivery interrupted", {
        sessionId: this.#journal.state?.sessionId,
        connection: cursor.connection,
        ...{ attempt, error: String(error) },
      });
      const isLast = attempt === DELIVERY_TRIES || isOverloaded(error);
      // Also before the second try: an object that is evicted during its tries goes on by the deadline. A first try has
      // none, because a deadline for each delivery would cost a row.
      if (attempt === 1 || isLast) this.#report.unreachable();
      if (isLast) return;
      await scheduler.wait(pauseMs(attempt, Math.random()));
    }
  }

  /** Resolves to the error if the connection's object could not be reached. */
  async #tryFeed(cursor: ClientCursor): Promise<unknown> {
    const { connection } = cursor;
    const sessionId = this.#journal.state?.sessionId;
    if (sessionId === undefined || this.#cursors.get(connection) !== cursor) return undefined;
    try {
      const isPresent = await cursor.pump(sessionId, this.#portOf(connection), this.#reader);
      if (!isPresent && this.#cursors.get(connection) === cursor) this.drop(connection);
      return undefined;
    } catch (error) {
      this.#ports.delete(connection);
      // A client that has left meanwhile misses nothing.
      return this.#journal.state && this.#cursors.get(connection) === cursor ? error : undefined;
    }
  }

  #portOf(connection: string): ClientPort {
    const port = this.#ports.get(connection) ?? withTimeout(this.#port(connection), this.#callMs);
    this.#ports.set(connection, port);
    return port;
  }
}

/** A connection that does not respond must not keep its client waiting for ever: the client's own cursor says what it has. */
function withTimeout(port: ClientPort, ms: number): ClientPort {
  return {
    startReading: (sessionId) => orSilent(port.startReading(sessionId), ms),
    deliver: (sessionId, page) => orSilent(port.deliver(sessionId, page), ms),
  };
}

function aboutOf({ attachment: { offers, as }, presence, first }: ClientCursor): string {
  return JSON.stringify({ offers, presence, first, as } satisfies About);
}
