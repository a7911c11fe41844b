import type { Caller } from "../protocol/caller.ts";
import { inWorkspacesOf } from "./workspace-filter.ts";
import { INDEX_COLUMNS, type IndexRow } from "./workspace-rows.ts";

export type WorkspaceSummary = Omit<IndexRow, "tenant"> & { updatedAt: string };

const { tenant: _, ...SHOWN } = INDEX_COLUMNS;
const SELECTION = Object.entries(SHOWN)
  .map(([field, column]) => `${column} AS "${field}"`)
  .join(", ");

/** A page of the workspaces the caller may use, the latest changed first. The cursor is the last line before it. */
export async function listWorkspaces(
  index: D1Database,
  caller: Caller,
  limit: number,
  cursor: string | undefined,
): Promise<{ workspaces: WorkspaceSummary[]; nextCursor: string | null }> {
  const mine = inWorkspacesOf(caller, "workspaces.id");
  const where = ["tenant = ?", mine.where];
  const values: (string | number)[] = [caller.tenant, ...mine.values];
  const [, updatedAt, id] = /^(\S+) (.+)$/s.exec(cursor ?? "") ?? [];
  if (updatedAt !== undefined && id !== undefined) {
    where.push("(updated_at, id) < (?, ?)");
    values.push(updatedAt, id);
  }
  const { results } = await index
    .prepare(
      `SELECT ${SELECTION} FROM workspaces WHERE ${where.join(" AND ")} ORDER BY updated_at DESC, id DESC LIMIT ?`,
    )
    .bind(...values, limit + 1)
    .all<WorkspaceSummary>();
  const page = results.slice(0, limit);
  const last = page.at(-1);
  return {
    workspaces: page,
    nextCursor: results.length > limit && last ? `${last.updatedAt} ${last.id}` : null,
  };
}
