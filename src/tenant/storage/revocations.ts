import { isoTime } from "../../protocol/iso-time.ts";
import type { Revocation } from "../../protocol/rest.ts";
import type { RevocationKind } from "../../protocol/rpc.ts";

type Row = { id: string; kind: string; value: string; by_subject: string; at: number; until: number | null };

/** The tenant's revocations. */
export class Revocations {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  covers({ jti, subject }: { jti?: string | null | undefined; subject: string }, now: number): boolean {
    return (
      this.#sql
        .exec(
          `SELECT 1 FROM revocation WHERE (until IS NULL OR until > ?)
           AND ((kind = 'subject' AND value = ?) OR (kind = 'jti' AND value = ?)) LIMIT 1`,
          now,
          subject,
          jti ?? null,
        )
        .toArray().length > 0
    );
  }

  /** Replaces an earlier revocation of the same value and keeps its id. */
  add(kind: RevocationKind, value: string, by: string, at: number, until: number | null): Revocation {
    const { id } = this.#sql
      .exec<{ id: string }>(
        `INSERT INTO revocation (id, kind, value, by_subject, at, until) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (kind, value) DO UPDATE
         SET by_subject = excluded.by_subject, at = excluded.at, until = excluded.until RETURNING id`,
        crypto.randomUUID(),
        kind,
        value,
        by,
        at,
        until,
      )
      .one();
    return { id, kind, value, by, at: isoTime(at), until: until === null ? null : isoTime(until) };
  }

  find(id: string): Revocation | undefined {
    const [row] = this.#sql.exec<Row>("SELECT * FROM revocation WHERE id = ?", id).toArray();
    return row && revocationOf(row);
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM revocation WHERE id = ?", id);
  }

  /** Newest first. */
  list(): Revocation[] {
    return this.#sql.exec<Row>("SELECT * FROM revocation ORDER BY at DESC, id").toArray().map(revocationOf);
  }

  get count(): number {
    return this.#sql.exec<{ n: number }>("SELECT count(*) AS n FROM revocation").one().n;
  }

  has(kind: RevocationKind, value: string): boolean {
    const found = this.#sql.exec("SELECT 1 FROM revocation WHERE kind = ? AND value = ?", kind, value);
    return found.toArray().length > 0;
  }

  /** The revocations whose time is over. */
  ended(now: number): Revocation[] {
    return this.#sql.exec<Row>("SELECT * FROM revocation WHERE until <= ?", now).toArray().map(revocationOf);
  }

  nextEnd(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT min(until) AS at FROM revocation").one().at;
  }
}

function revocationOf({ id, kind, value, by_subject, at, until }: Row): Revocation {
  const end = until === null ? null : isoTime(until);
  return { id, kind: kind as RevocationKind, value, by: by_subject, at: isoTime(at), until: end };
}
