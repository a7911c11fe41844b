import { Tables } from "../durable/schema.ts";
import { textChunks } from "../durable/text-chunks.ts";
import { type Caller, isReader, mayUseWorkspace } from "../protocol/caller.ts";
import { CLIENT_STATE, type ClientState } from "../protocol/client-state.ts";
import type { Cursor } from "../protocol/cursor.ts";
import type { Limits } from "../protocol/limits.ts";
import { CONNECTION_SCHEMA } from "./schema.ts";

/** A message in the outbox, by its number. */
export type OutboxMessage = { readonly n: number; readonly text: string };

/** The storage of a connection whose client may be without a socket: over HTTP, or until it comes back. */
export class ConnectionStore {
  readonly #sql: SqlStorage;
  readonly #tables: Tables;
  readonly #limits: Limits;
  #state: ClientState | undefined;

  constructor(storage: DurableObjectStorage, limits: Limits) {
    this.#sql = storage.sql;
    this.#tables = new Tables(storage, CONNECTION_SCHEMA);
    this.#limits = limits;
    if (this.#tables.exist) {
      const row = this.#one<{ state: string }>("SELECT state FROM connection");
      this.#state = CLIENT_STATE.safeParse(JSON.parse(row?.state ?? "null")).data;
    }
  }

  /** Undefined until a client has connected: a request for an unknown connection leaves no trace. */
  get state(): ClientState | undefined {
    return this.#state;
  }

  /** Whether the connection is the caller's and of this kind: a client of one transport cannot use the other. */
  isFor(caller: Caller, kind: "http" | "resumable"): boolean {
    const state = this.#state;
    return (
      state !== undefined &&
      (state.resumable ? "resumable" : "http") === kind &&
      state.caller.tenant === caller.tenant &&
      state.caller.subject === caller.subject &&
      state.caller.session === caller.session &&
      isReader(caller) &&
      mayUseWorkspace(caller, state.workspace)
    );
  }

  create(state: ClientState, now: number): void {
    this.#tables.create();
    this.#sql.exec("INSERT INTO connection (state, seen) VALUES (?, ?)", JSON.stringify(state), now);
    this.#state = state;
  }

  save(state: ClientState, now: number): void {
    this.#state = state;
    this.#sql.exec("UPDATE connection SET state = ?, seen = ?", JSON.stringify(state), now);
  }

  /** The storage has been, or is about to be, deleted. */
  forget(): void {
    this.#state = undefined;
    this.#tables.forget();
  }

  /** When the client last made a request. */
  seen(): number {
    return this.#one<{ seen: number }>("SELECT seen FROM connection")?.seen ?? 0;
  }

  // ---- streams ----------------------------------------------------------------------------------------

  /** The sessions that the client is attached to, in the order of their attachment; none if there is no client. */
  attached(): string[] {
    if (!this.#tables.exist) return [];
    return this.#sql
      .exec<{ id: string }>("SELECT id FROM stream WHERE attached = 1 ORDER BY rowid")
      .toArray()
      .map(({ id }) => id);
  }

  isAttached(sessionId: string): boolean {
    return this.#one("SELECT 1 FROM stream WHERE id = ? AND attached = 1", sessionId) !== undefined;
  }

  attach(sessionId: string): void {
    this.#sql.exec(
      "INSERT INTO stream (id, attached) VALUES (?, 1) ON CONFLICT (id) DO UPDATE SET attached = 1",
      sessionId,
    );
  }

  detach(sessionId: string): void {
    this.#sql.exec("UPDATE stream SET attached = 0 WHERE id = ?", sessionId);
  }

  /** How far a stream has been sent, the last of its messages that is no longer kept, and its reader's cursor. */
  stream(id: string): { sent: number; dropped: number; cursor: Cursor | null } {
    const row = this.#one<{ sent: number; dropped: number; cursor: string | null }>(
      "SELECT sent, dropped, cursor FROM stream WHERE id = ?",
      id,
    );
    return { sent: row?.sent ?? 0, dropped: row?.dropped ?? 0, cursor: JSON.parse(row?.cursor ?? "null") };
  }

  setSent(id: string, sent: number): void {
    this.#sql.exec(
      "INSERT INTO stream (id, sent) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET sent = excluded.sent",
      id,
      sent,
    );
  }

  setCursor(id: string, cursor: Cursor | null): void {
    this.#sql.exec("UPDATE stream SET cursor = ? WHERE id = ?", JSON.stringify(cursor), id);
  }

  // ---- outbox -----------------------------------------------------------------------------------------

  /** Puts a message in the outbox; `re` is the number of the client's frame that it answers, once. */
  put(stream: string, text: string, re: number | null = null): void {
    const row = this.#one<{ n: number }>(
      "INSERT INTO outbox (stream, chars, re) VALUES (?, ?, ?) ON CONFLICT (re) DO NOTHING RETURNING n",
      stream,
      text.length,
      re,
    );
    if (!row) return;
    const { n } = row;
    for (const [part, body] of textChunks(text, this.#limits.rowChars).entries())
      this.#sql.exec("INSERT INTO outbox_part (n, part, body) VALUES (?, ?, ?)", n, part, body);
  }

  /** The messages that wait for a stream, up to about a page of them. */
  unsent(stream: string, after = this.stream(stream).sent): OutboxMessage[] {
    const messages: OutboxMessage[] = [];
    let chars = 0;
    for (const row of this.#sql.exec<{ n: number; chars: number }>(
      "SELECT n, chars FROM outbox WHERE stream = ? AND n > ? ORDER BY n",
      stream,
      after,
    )) {
      chars += row.chars;
      if (messages.length > 0 && chars > this.#limits.deliverChars) break;
      messages.push({ n: row.n, text: this.#text(row.n) });
    }
    return messages;
  }

  /** Whether so much waits for the client that it must read before it may ask for more. */
  isFull(): boolean {
    const waiting = this.#one<{ messages: number; chars: number | null }>(
      `SELECT count(*) AS messages, sum(chars) AS chars FROM outbox LEFT JOIN stream ON id = stream
       WHERE n > coalesce(sent, 0)`,
    );
    return (
      (waiting?.messages ?? 0) >= this.#limits.outboxMessages ||
      (waiting?.chars ?? 0) >= this.#limits.outboxChars
    );
  }

  /** Drops the oldest messages that were sent, when there are many. */
  trim(): void {
    let messages = 0;
    let chars = 0;
    const rows = this.#sql.exec<{ n: number; chars: number; stream: string; sent: number | null }>(
      "SELECT n, chars, stream, sent FROM outbox LEFT JOIN stream ON id = stream ORDER BY n DESC",
    );
    for (const { n, stream, sent, ...row } of rows.toArray()) {
      messages += 1;
      chars += row.chars;
      if (n > (sent ?? 0) || (messages <= this.#limits.outboxMessages && chars <= this.#limits.outboxChars))
        continue;
      this.#sql.exec("DELETE FROM outbox WHERE n = ?", n);
      this.#sql.exec("DELETE FROM outbox_part WHERE n = ?", n);
      this.#sql.exec("UPDATE stream SET dropped = max(dropped, ?) WHERE id = ?", n, stream);
    }
    // Streams of sessions that never existed.
    this.#sql.exec(
      "DELETE FROM stream WHERE attached = 0 AND id <> '' AND id NOT IN (SELECT stream FROM outbox)",
    );
  }

  #text(n: number): string {
    return this.#sql
      .exec<{ body: string }>("SELECT body FROM outbox_part WHERE n = ? ORDER BY part", n)
      .toArray()
      .map(({ body }) => body)
      .join("");
  }

  // ---- answers owed on the connection's own stream ------------------------------------------------------

  /** A session owes the connection the answer to the request with this id. */
  owe(session: string, id: string): void {
    this.#sql.exec("INSERT INTO expected (session, id) VALUES (?, ?)", session, id);
    this.#sql.exec(
      "DELETE FROM expected WHERE n <= (SELECT max(n) FROM expected) - ?",
      this.#limits.outboxMessages,
    );
  }

  /** The connection itself has answered the request. */
  cancelOwed(id: string): void {
    this.#sql.exec("DELETE FROM expected WHERE id = ? AND seq IS NULL", id);
  }

  sessionsOwing(): string[] {
    return this.#sql
      .exec<{ session: string }>("SELECT DISTINCT session FROM expected WHERE seq IS NULL")
      .toArray()
      .map(({ session }) => session);
  }

  isOwing(session: string): boolean {
    return this.#one("SELECT 1 FROM expected WHERE session = ? AND seq IS NULL", session) !== undefined;
  }

  /**
   * Whether the session owed this answer, its event `seq`. A `settled` answer has been put on the connection's stream
   * before.
   */
  owed(session: string, id: string, seq: number): "due" | "settled" | undefined {
    const row = this.#one<{ seq: number | null }>(
      "SELECT seq FROM expected WHERE session = ? AND id = ? AND (seq IS NULL OR seq = ?) ORDER BY n LIMIT 1",
      session,
      id,
      seq,
    );
    if (!row) return undefined;
    return row.seq === null ? "due" : "settled";
  }

  /** The answer, event `seq` of the session, is put on the connection's stream now. */
  settle(session: string, id: string, seq: number): void {
    this.#sql.exec(
      `UPDATE expected SET seq = ?
       WHERE n = (SELECT min(n) FROM expected WHERE session = ? AND id = ? AND seq IS NULL)`,
      seq,
      session,
      id,
    );
  }

  #one<Row extends Record<string, SqlStorageValue>>(
    query: string,
    ...values: SqlStorageValue[]
  ): Row | undefined {
    return this.#sql.exec<Row>(query, ...values).toArray()[0];
  }
}
