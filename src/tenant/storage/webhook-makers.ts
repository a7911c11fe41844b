import type { WebhookRegistration } from "../../protocol/rpc.ts";
import { type RevocationTarget, reachedBy } from "./makers.ts";

/** A webhook, and how many changes of its maker's revocations its workspace has not confirmed. */
type Row = { id: string; workspace: string; changes: number };

/** The makers of the webhooks in the tenant's workspaces. The webhooks themselves are with their workspaces. */
export class WebhookMakers {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Changes that the workspace has not confirmed stay. */
  put({ id, workspace, maker }: WebhookRegistration): void {
    this.#sql.exec(
      `INSERT INTO webhook (id, workspace, by_subject, by_jti, by_workspace) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET workspace = excluded.workspace, by_subject = excluded.by_subject,
       by_jti = excluded.by_jti, by_workspace = excluded.by_workspace
       WHERE (workspace, by_subject, by_jti, by_workspace) IS NOT
         (excluded.workspace, excluded.by_subject, excluded.by_jti, excluded.by_workspace)`,
      ...[id, workspace, maker.subject, maker.jti, maker.workspace],
    );
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM webhook WHERE id = ?", id);
  }

  /** Notes that a revocation of the maker was made or has ended. Returns the webhooks that this concerns. */
  markChanged(target: RevocationTarget): { id: string; workspace: string }[] {
    const [condition, values] = reachedBy(target);
    return this.#sql
      .exec<{ id: string; workspace: string }>(
        `UPDATE webhook SET changes = changes + 1 WHERE ${condition} RETURNING id, workspace`,
        ...values,
      )
      .toArray();
  }

  /** The webhooks whose workspaces have to check their makers, by workspace. */
  changed(): Map<string, Row[]> {
    const rows = this.#sql
      .exec<Row>("SELECT id, workspace, changes FROM webhook WHERE changes > 0")
      .toArray();
    return Map.groupBy(rows, ({ workspace }) => workspace);
  }

  /** The workspace has checked its webhooks after these changes. Webhooks that it does not have are forgotten. */
  confirm(checked: readonly Row[], existing: readonly string[]): void {
    for (const { id, changes } of checked) {
      if (existing.includes(id))
        this.#sql.exec("UPDATE webhook SET changes = 0 WHERE id = ? AND changes = ?", id, changes);
      else this.#sql.exec("DELETE FROM webhook WHERE id = ? AND changes = ?", id, changes);
    }
  }
}
