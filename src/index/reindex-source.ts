import { runner } from "./runner.ts";

/**
 * Names that only the index knows: of sessions and workspaces from before their workspaces and tenants kept lists, and
 * of sessions that do not exist any more.
 */

/** A page of names, and where the next one begins; null after the last page. */
export type NamePage = { readonly names: readonly string[]; readonly next: string | null };

/** Sessions that the index lists in a workspace. A row that is written meanwhile moves to the end and is seen again. */
export async function indexedSessions(
  index: D1Database,
  { tenant, workspace }: { tenant: string; workspace: string },
  after: string | null,
): Promise<NamePage> {
  const [at = "", id = ""] = after?.split(" ") ?? [];
  const rows = await runner(index)<{ id: string; at: string }>({
    sql: `SELECT id, updated_at AS at FROM sessions
      WHERE tenant = ? AND workspace = ? AND (updated_at, id) > (?, ?) ORDER BY updated_at, id LIMIT ?`,
    values: [tenant, workspace, at, id, PAGE],
  });
  return pageOf(
    rows,
    ({ id }) => id,
    (last) => `${last.at} ${last.id}`,
  );
}

/** Sessions that wait for permissions or answers in a workspace, according to the index: first one table, then the other. */
export async function sessionsWithRequests(
  index: D1Database,
  workspace: { tenant: string; workspace: string },
  after: string | null,
): Promise<NamePage> {
  if (after?.startsWith(QUESTIONS)) {
    const page = await sessionsIn("questions", index, workspace, after.slice(QUESTIONS.length));
    return { ...page, next: page.next && QUESTIONS + page.next };
  }
  const page = await sessionsIn("permissions", index, workspace, after ?? "");
  return { ...page, next: page.next ?? QUESTIONS };
}

/** The beginning of a place in the table `questions`. A place in `permissions` begins with a time. */
const QUESTIONS = "questions ";

async function sessionsIn(
  table: "permissions" | "questions",
  index: D1Database,
  { tenant, workspace }: { tenant: string; workspace: string },
  after: string,
): Promise<NamePage> {
  const [at = "", session = "", seq = "0"] = after.split(" ");
  const rows = await runner(index)<{ session: string; seq: number; at: string }>({
    sql: `SELECT session, seq, requested_at AS at FROM ${table}
      WHERE tenant = ? AND workspace = ? AND (requested_at, session, seq) > (?, ?, ?)
      ORDER BY requested_at, session, seq LIMIT ?`,
    values: [tenant, workspace, at, session, Number(seq), PAGE],
  });
  return pageOf(
    rows,
    ({ session }) => session,
    (last) => `${last.at} ${last.session} ${last.seq}`,
  );
}

/** Workspaces that the index lists. */
export async function indexedWorkspaces(
  index: D1Database,
  tenant: string,
  after: string | null,
): Promise<NamePage> {
  const rows = await runner(index)<{ id: string }>({
    sql: "SELECT id FROM workspaces WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?",
    values: [tenant, after ?? "", PAGE],
  });
  return pageOf(
    rows,
    ({ id }) => id,
    (last) => last.id,
  );
}

/** Workspaces of which the index lists sessions. Each step seeks the next name. */
export async function workspacesWithSessions(
  index: D1Database,
  tenant: string,
  after: string | null,
): Promise<NamePage> {
  const rows = await runner(index)<{ id: string | null }>({
    sql: `WITH RECURSIVE found (workspace_name) AS (
        SELECT (SELECT min(workspace) FROM sessions WHERE tenant = ?1 AND workspace > ?2)
        UNION ALL SELECT (SELECT min(workspace) FROM sessions WHERE tenant = ?1 AND workspace > found.workspace_name)
        FROM found WHERE found.workspace_name IS NOT NULL LIMIT ?3)
      SELECT workspace_name AS id FROM found`,
    values: [tenant, after ?? "", PAGE],
  });
  const found = rows.flatMap(({ id }) => (id === null ? [] : [{ id }]));
  return {
    ...pageOf(
      found,
      ({ id }) => id,
      (last) => last.id,
    ),
    ...(rows.length < PAGE && { next: null }),
  };
}

function pageOf<Row>(rows: readonly Row[], name: (row: Row) => string, key: (last: Row) => string): NamePage {
  const last = rows.at(-1);
  return { names: rows.map(name), next: rows.length < PAGE || last === undefined ? null : key(last) };
}

const PAGE = 500;
