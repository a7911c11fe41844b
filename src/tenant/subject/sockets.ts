import type { ObjectAddress, RevocableToken, SocketRegistration } from "../../protocol/rpc.ts";

type Row = {
  id: string;
  jti: string | null;
  workspace: string | null;
  holder: string;
  name: string;
};

/** A socket, and the object that holds it and can end it. */
export type HeldSocket = { readonly id: string; readonly holder: ObjectAddress };

/** A row as it was read: a socket that enters again, or renews its lease, has another one. */
export type SocketEntry = HeldSocket & { readonly entry: string; readonly lease: number };

/**
 * The open sockets of one subject. A row counts until its lease ends: an object that lost its socket with its memory
 * signs nothing off, and its row must not count for ever.
 */
export class SubjectSockets {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  put({ id, kind, jti, workspace, holder, entry }: SocketRegistration, lease: number): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO socket (id, kind, jti, workspace, holder, name, lease, entry)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, kind, jti, workspace, holder.class, holder.name, lease, entry ?? ""],
    );
  }

  has(id: string, now: number): boolean {
    const found = this.#sql.exec("SELECT 1 FROM socket WHERE id = ? AND lease > ?", id, now);
    return found.toArray().length > 0;
  }

  count(now: number): number {
    return this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM socket WHERE lease > ?", now).one().n;
  }

  /** The next sockets in the order of their ids. */
  after(id: string, count: number): SocketEntry[] {
    const rows = this.#sql.exec<Row & { entry: string; lease: number }>(
      "SELECT id, jti, workspace, holder, name, entry, lease FROM socket WHERE id > ? ORDER BY id LIMIT ?",
      ...[id, count],
    );
    return rows.toArray().map((row) => ({ ...heldSocket(row), entry: row.entry, lease: row.lease }));
  }

  /** Removes an entry of the socket; without one, whichever there is. False: it is not there. */
  remove(id: string, entry: string | null): boolean {
    const removed = this.#sql.exec(
      "DELETE FROM socket WHERE id = ?1 AND (?2 IS NULL OR entry = ?2) RETURNING 1",
      ...[id, entry],
    );
    return removed.toArray().length > 0;
  }

  /** Removes a socket, unless it has entered again or renewed its lease since. False: the socket keeps its place. */
  removeUnchanged({ id, entry, lease }: SocketEntry): boolean {
    const removed = this.#sql.exec(
      "DELETE FROM socket WHERE id = ? AND entry = ? AND lease = ? RETURNING 1",
      ...[id, entry, lease],
    );
    return removed.toArray().length > 0;
  }

  removeLapsed(now: number): void {
    this.#sql.exec("DELETE FROM socket WHERE lease <= ?", now);
  }

  /** Marks the sockets whose tokens are covered as ending, and returns them. Every socket has a lease. */
  markEnding(isCovered: (token: Omit<RevocableToken, "subject">) => boolean): HeldSocket[] {
    const covered = this.#rows("lease > 0 AND isEnding = 0").filter(isCovered);
    for (const { id } of covered) this.#sql.exec("UPDATE socket SET isEnding = 1 WHERE id = ?", id);
    return covered.map(heldSocket);
  }

  /** The sockets whose holders have not confirmed their end. */
  ending(): HeldSocket[] {
    return this.#rows("isEnding = 1").map(heldSocket);
  }

  /** The holder has ended the socket. A socket that was registered again meanwhile, with another token, stays. */
  confirmEnd(id: string): void {
    this.#sql.exec("DELETE FROM socket WHERE id = ? AND isEnding = 1", id);
  }

  #rows(condition: string): Row[] {
    return this.#sql
      .exec<Row>(`SELECT id, jti, workspace, holder, name FROM socket WHERE ${condition}`)
      .toArray();
  }
}

function heldSocket({ id, holder, name }: Row): HeldSocket {
  return { id, holder: { class: holder as ObjectAddress["class"], name } };
}
