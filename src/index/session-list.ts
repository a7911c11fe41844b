import type { Caller } from "../protocol/caller.ts";
import { INDEX_COLUMNS, type IndexRow } from "./session-rows.ts";
import { inWorkspacesOf } from "./workspace-filter.ts";

export type SessionSummary = Omit<IndexRow, "tenant">;

const { tenant: _, ...SHOWN } = INDEX_COLUMNS;
const SELECTION = Object.entries(SHOWN)
  .map(([field, column]) => `${column} AS "${field}"`)
  .join(", ");

/** A page of the caller's sessions, newest first. The cursor is the last line of the page before. */
export async function listSessions(
  index: D1Database,
  caller: Caller,
  limit: number,
  { cursor, cwd }: { cursor?: string | undefined; cwd?: string | undefined } = {},
): Promise<{ sessions: SessionSummary[]; nextCursor: string | null }> {
  const mine = inWorkspacesOf(caller);
  const [updatedAt, id] = cursor?.split(" ") ?? [];
  const where = ["tenant = ?", mine.where];
  const values: (string | number)[] = [caller.tenant, ...mine.values];
  if (caller.session !== undefined) {
    where.push("id = ?");
    values.push(caller.session);
  }
  if (cwd !== undefined) {
    where.push("(client_cwd = ? OR cwd = ?)");
    values.push(cwd, cwd);
  }
  if (updatedAt !== undefined && id !== undefined) {
    where.push("(updated_at, id) < (?, ?)");
    values.push(updatedAt, id);
  }
  const { results } = await index
    .prepare(
      `SELECT ${SELECTION} FROM sessions WHERE ${where.join(" AND ")} ORDER BY updated_at DESC, id DESC LIMIT ?`,
    )
    .bind(...values, limit + 1)
    .all<SessionSummary>();
  const page = results.slice(0, limit);
  const last = page.at(-1);
  return {
    sessions: page,
    nextCursor: results.length > limit && last ? `${last.updatedAt} ${last.sessionId}` : null,
  };
}
