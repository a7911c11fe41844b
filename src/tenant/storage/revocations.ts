import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Revocation } from "../../protocol/rest-tenant.ts";
import type { RevocableToken, RevocationKind, RevocationOrder } from "../../protocol/rpc.ts";

type Row = {
  id: string;
  kind: string;
  value: string;
  workspace: string;
  by_subject: string;
  at: number;
  until: number | null;
};

/** The maker of a revocation: a subject, who may administer the whole tenant or workspaces alone. */
export type Revoker = { readonly subject: string; readonly isTenantAdmin: boolean };

/** The tenant's revocations. */
export class Revocations {
  readonly #sql: SqlStorage;
  readonly #limits: Pick<Limits, "revocations" | "revocationsPerMaker">;

  constructor(sql: SqlStorage, limits: Pick<Limits, "revocations" | "revocationsPerMaker">) {
    this.#sql = sql;
    this.#limits = limits;
  }

  covers({ jti, subject, workspace }: RevocableToken, now: number): boolean {
    return (
      this.#sql
        .exec(
          `SELECT 1 FROM revocation WHERE (until IS NULL OR until > ?) AND workspace IN ('', ?)
           AND ((kind = 'subject' AND value = ?) OR (kind = 'jti' AND value = ?)) LIMIT 1`,
          ...[now, workspace ?? "", subject, jti ?? null],
        )
        .toArray().length > 0
    );
  }

  /** Replaces an earlier revocation of the same value and keeps its id. */
  add({ kind, value, workspace, until }: RevocationOrder, by: string, at: number): Revocation {
    const row = this.#sql
      .exec<Row>(
        `INSERT INTO revocation (id, kind, value, workspace, by_subject, at, until) VALUES (?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (kind, value, workspace) DO UPDATE
         SET by_subject = excluded.by_subject, at = excluded.at, until = excluded.until RETURNING *`,
        ...[crypto.randomUUID(), kind, value, workspace ?? "", by, at, until],
      )
      .one();
    return revocationOf(row);
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

  /** Whether the order renews a revocation. A session has one workspace, which the order need not name. */
  has({ kind, value, workspace }: RevocationOrder): boolean {
    const found = this.#sql.exec(
      "SELECT 1 FROM revocation WHERE kind = ? AND value = ? AND (kind = 'session' OR workspace = ?)",
      ...[kind, value, workspace ?? ""],
    );
    return found.toArray().length > 0;
  }

  /**
   * Whether there is room for one more revocation. Ended revocations make room; no other one gives way, because a token
   * or its links may still be valid. An administrator of the tenant can revoke a subject at any time.
   */
  hasRoom({ kind, workspace }: RevocationOrder, { subject, isTenantAdmin }: Revoker, now: number): boolean {
    if (isTenantAdmin && kind === "subject" && workspace === null) return true;
    // The end of a session's revocation restores the session first, see the tenant's alarm.
    this.#sql.exec("DELETE FROM revocation WHERE kind != 'session' AND until <= ?", now);
    const { revocations: max, revocationsPerMaker } = this.#limits;
    const inWorkspaces = this.#count("workspace > ''");
    if (isTenantAdmin)
      return inWorkspaces + this.#count("workspace = '' AND kind IN ('session', 'jti')") < max;
    return inWorkspaces < max / 2 && this.#count("by_subject = ?", subject) < revocationsPerMaker;
  }

  #count(where: string, ...values: string[]): number {
    return this.#sql
      .exec<{ n: number }>(`SELECT count(*) AS n FROM revocation WHERE ${where}`, ...values)
      .one().n;
  }

  /** The revocations whose time is over. */
  ended(now: number): Revocation[] {
    return this.#sql.exec<Row>("SELECT * FROM revocation WHERE until <= ?", now).toArray().map(revocationOf);
  }

  nextEnd(): number | null {
    return this.#sql.exec<{ at: number | null }>("SELECT min(until) AS at FROM revocation").one().at;
  }
}

function revocationOf({ id, kind, value, workspace, by_subject, at, until }: Row): Revocation {
  return {
    ...{ id, kind: kind as RevocationKind, value, workspace: workspace === "" ? null : workspace },
    ...{ by: by_subject, at: isoTime(at), until: until === null ? null : isoTime(until) },
  };
}
