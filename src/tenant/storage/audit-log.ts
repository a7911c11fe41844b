import { type Caller, isTenantAdmin, mayAdminister } from "../../protocol/caller.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { AuditEntry } from "../../protocol/rest-tenant.ts";
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

type AuditLimits = Pick<Limits, "auditEntries" | "auditEntriesPerSubject">;

/**
 * The newest audited acts of the tenant. Each kind of act has room of its own, and within a kind each subject has a
 * bounded part of it: many acts of one kind or of one subject push out no trace of others.
 */
export class AuditLog {
  readonly #sql: SqlStorage;
  readonly #limits: AuditLimits;

  constructor(sql: SqlStorage, limits: AuditLimits) {
    this.#sql = sql;
    this.#limits = limits;
  }

  add({ kind, subject, workspace, session, detail = {} }: Act, at: number): void {
    this.#sql.exec(
      "INSERT INTO audit (at, kind, subject, workspace, session, detail) VALUES (?, ?, ?, ?, ?, ?)",
      ...[at, kind, subject, workspace ?? null, session ?? null, JSON.stringify(detail)],
    );
    const { auditEntries, auditEntriesPerSubject } = this.#limits;
    const total = this.#count(kind, ALL, 1);
    const own = subject === ALL ? total : this.#count(kind, subject, 1);
    if (own > auditEntriesPerSubject) this.#dropOldest(kind, subject);
    else if (total > auditEntries) this.#dropOldest(kind);
  }

  /** Removes the oldest entry of the kind, or of one subject within the kind. */
  #dropOldest(kind: string, subject?: string): void {
    const condition = subject === undefined ? "kind = ?" : "kind = ? AND subject = ?";
    const [dropped] = this.#sql
      .exec<{ subject: string }>(
        `DELETE FROM audit WHERE seq = (SELECT min(seq) FROM audit WHERE ${condition}) RETURNING subject`,
        ...[kind, ...(subject === undefined ? [] : [subject])],
      )
      .toArray();
    if (!dropped) return;
    this.#count(kind, ALL, -1);
    if (dropped.subject !== ALL && this.#count(kind, dropped.subject, -1) === 0)
      this.#sql.exec("DELETE FROM audit_count WHERE kind = ? AND subject = ?", kind, dropped.subject);
  }

  #count(kind: string, subject: string, change: 1 | -1): number {
    return this.#sql
      .exec<{ entries: number }>(
        `INSERT INTO audit_count (kind, subject, entries) VALUES (?1, ?2, ?3)
         ON CONFLICT (kind, subject) DO UPDATE SET entries = entries + ?3 RETURNING entries`,
        ...[kind, subject, change],
      )
      .one().entries;
  }

  /**
   * The entries after a sequence number, oldest first: of the caller's workspaces, and for an administrator of the tenant
   * all of them. An entry without a workspace concerns the whole tenant.
   */
  page(caller: Caller, { after, limit, kind }: AuditQuery): { entries: AuditEntry[]; next: number | null } {
    const entries: AuditEntry[] = [];
    const rows =
      kind === undefined
        ? this.#sql.exec<Row>("SELECT * FROM audit WHERE seq > ? ORDER BY seq", after)
        : this.#sql.exec<Row>("SELECT * FROM audit WHERE kind = ? AND seq > ? ORDER BY seq", kind, after);
    for (const row of rows) {
      const isTheirs = row.workspace === null ? isTenantAdmin(caller) : mayAdminister(caller, row.workspace);
      if (!isTheirs) continue;
      if (entries.length === limit) return { entries, next: entries.at(-1)?.seq ?? null };
      entries.push(entryOf(row));
    }
    return { entries, next: null };
  }
}

/** Stands for all subjects in the counts. No token has an empty subject. */
const ALL = "";

/** Earlier builds recorded the values of changed settings, which may have credentials; only their names are shown. */
function shownDetail(kind: string, detail: Record<string, unknown>): unknown {
  if (kind !== "workspace.changed" || "settings" in detail) return detail;
  return { settings: Object.keys(detail).join() };
}

function entryOf({ at, kind, detail, ...row }: Row): AuditEntry {
  return {
    ...row,
    at: isoTime(at),
    kind,
    detail: shownDetail(kind, JSON.parse(detail) as Record<string, unknown>),
  };
}
