import type { ObjectAddress, SocketRegistration } from "../../protocol/rpc.ts";

type Row = { id: string; kind: string; holder: string; name: string };

/** A socket that has to end, and the object that can end it. */
export type EarlierSocket = { id: string; kind: SocketRegistration["kind"]; holder: ObjectAddress };

/**
 * Sockets that objects of the previous release have registered with their tenant: sockets hibernate over a deployment,
 * and a revocation must still find them. A row goes with its socket, and at the latest with its token. Removable one
 * release later, together with `earlier-calls.ts`.
 */
export class EarlierSockets {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  put({ id, kind, subject, jti, workspace, expires, holder }: SocketRegistration, now: number): void {
    this.#removeExpired(now);
    this.#sql.exec(
      `INSERT OR REPLACE INTO socket (id, kind, subject, jti, workspace, expires, holder, name)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, kind, subject, jti, workspace, expires, holder.class, holder.name],
    );
  }

  has(id: string, subject: string, now: number): boolean {
    const found = this.#sql.exec(
      "SELECT 1 FROM socket WHERE id = ? AND subject = ? AND expires >= ?",
      ...[id, subject, Math.floor(now / 1000)],
    );
    return found.toArray().length > 0;
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM socket WHERE id = ?", id);
  }

  /**
   * Marks the sockets of one token or of one subject as ending, and returns them; with a `workspace` only those of
   * tokens that are valid there alone.
   */
  markEnding(key: "jti" | "subject", value: string, workspace: string | null = null): EarlierSocket[] {
    return this.#sql
      .exec<Row>(
        `UPDATE socket SET isEnding = 1 WHERE ${key} = ? AND (? IS NULL OR workspace = ?) AND kind != '${RESERVED}'
         RETURNING id, kind, holder, name`,
        ...[value, workspace, workspace],
      )
      .toArray()
      .map(socketOf);
  }

  /** The sockets whose holders have not confirmed their end. A socket ends with its token in any case. */
  ending(now: number): EarlierSocket[] {
    this.#removeExpired(now);
    return this.#sql
      .exec<Row>("SELECT id, kind, holder, name FROM socket WHERE isEnding = 1")
      .toArray()
      .map(socketOf);
  }

  /** The holder has ended the socket. A socket that was registered again meanwhile, with another token, stays. */
  confirmEnd(id: string): void {
    this.#sql.exec("DELETE FROM socket WHERE id = ? AND isEnding = 1", id);
  }

  #removeExpired(now: number): void {
    this.#sql.exec("DELETE FROM socket WHERE expires < ?", Math.floor(now / 1000) - EXTRA_SECONDS);
  }
}

function socketOf({ id, kind, holder, name }: Row): EarlierSocket {
  return {
    id,
    kind: kind as EarlierSocket["kind"],
    holder: { class: holder as ObjectAddress["class"], name },
  };
}

const RESERVED = "reserved";

/** A socket closes some time after its token has expired, and must be found until then. */
const EXTRA_SECONDS = 300;
