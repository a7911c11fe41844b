import type { ObjectAddress, SocketRegistration } from "../../protocol/rpc.ts";

type Row = { id: string; holder: string; name: string };

/** The open sockets of the tenant and their tokens. A row may outlive its socket, but not its token. */
export class RegisteredSockets {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  put({ id, kind, subject, jti, expires, holder }: SocketRegistration, now: number): void {
    this.#sql.exec("DELETE FROM socket WHERE expires < ?", Math.floor(now / 1000) - EXTRA_SECONDS);
    this.#sql.exec(
      "INSERT OR REPLACE INTO socket (id, kind, subject, jti, expires, holder, name) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[id, kind, subject, jti, expires, holder.class, holder.name],
    );
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM socket WHERE id = ?", id);
  }

  countOf(subject: string, now: number): number {
    return this.#sql
      .exec<{ n: number }>(
        "SELECT count(*) AS n FROM socket WHERE subject = ? AND expires >= ?",
        subject,
        Math.floor(now / 1000),
      )
      .one().n;
  }

  /** The sockets of one token or of one subject. */
  having(key: "jti" | "subject", value: string): { id: string; holder: ObjectAddress }[] {
    return this.#sql
      .exec<Row>(`SELECT id, holder, name FROM socket WHERE ${key} = ?`, value)
      .toArray()
      .map(({ id, holder, name }) => ({ id, holder: { class: holder as ObjectAddress["class"], name } }));
  }
}

/** A socket closes some time after its token has expired, and must be found until then. */
const EXTRA_SECONDS = 300;
