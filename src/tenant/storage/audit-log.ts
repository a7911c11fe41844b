import { type Caller, mayUseWorkspace } from "../../protocol/caller.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { AuditEntry } from "../../protocol/rest.ts";
import type { Act } from "../client/audit.ts";

export type AuditQuery = { after: number; limit: number; kind?: string | undefined };

type Row = {
  seq: number;
  at: number;
  kind: string;
  subject: string;
  workspace: string | null;
  session: string | null;
  detail: string;
};

/** The newest audited acts of the tenant. */
export class AuditLog {
  readonly #sql: SqlStorage;
  readonly #maxEntries: number;

  constructor(sql: SqlStorage, maxEntries: number) {
    this.#sql = sql;
    this.#maxEntries = maxEntries;
  }

  add({ kind, subject, workspace, session, detail = {} }: Act, at: number): void {
    const { seq } = this.#sql
      .exec<{ seq: number }>(
        "INSERT INTO audit (at, kind, subject, workspace, session, detail) VALUES (?, ?, ?, ?, ?, ?) RETURNING seq",
        ...[at, kind, subject, workspace ?? null, session ?? null, JSON.stringify(detail)],
      )
      .one();
    this.#sql.exec("DELETE FROM audit WHERE seq <= ?", seq - this.#maxEntries);
  }

  /** The entries after a sequence number, oldest first, without those of workspaces that the caller may not use. */
  page(caller: Caller, { after, limit, kind }: AuditQuery): { entries: AuditEntry[]; next: number | null } {
    const entries: AuditEntry[] = [];
    for (const row of this.#sql.exec<Row>(
      "SELECT * FROM audit WHERE seq > ? AND kind = coalesce(?, kind) ORDER BY seq",
      after,
      kind ?? null,
    )) {
      if (row.workspace !== null && !mayUseWorkspace(caller, row.workspace)) continue;
      if (entries.length === limit) return { entries, next: entries.at(-1)?.seq ?? null };
      entries.push(entryOf(row));
    }
    return { entries, next: null };
  }
}

function entryOf({ at, kind, detail, ...row }: Row): AuditEntry {
  return {
    ...row,
    at: isoTime(at),
    kind,
    detail: JSON.parse(detail) as unknown,
  };
}
