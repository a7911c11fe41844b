import { type Caller, mayUseWorkspace } from "../protocol/caller.ts";
import { clientRequestId } from "../protocol/ids.ts";
import { type CallersTable, readCallersPage } from "./callers-page.ts";
import { type KeysetPage, pageFrom, pageQuery, type Run, readCursor } from "./keyset-page.ts";
import { runner } from "./runner.ts";

/** A permission request that waits for an answer, as a row of the D1 table `permissions`. */
type PermissionRow = {
  sessionId: string;
  seq: number;
  workspace: string;
  toolCallId: string | null;
  title: string | null;
  kind: string | null;
  /** JSON text; null when the options were too long for the index. The session's log has them. */
  options: string | null;
  requestedAt: string;
};

export type IndexedPermission = PermissionRow & { id: string };

const PENDING: CallersTable<PermissionRow> = {
  workspace: "workspace",
  name: "permissions",
  columns: {
    sessionId: "session",
    seq: "seq",
    workspace: "workspace",
    toolCallId: "tool_call_id",
    title: "title",
    kind: "kind",
    options: "options",
    requestedAt: "requested_at",
  },
  order: [
    ["requestedAt", String],
    ["sessionId", String],
    ["seq", Number],
  ],
  direction: "ASC",
};

/** A page of the permission requests that wait in the caller's sessions, oldest first. */
export async function listPermissions(
  index: D1Database,
  caller: Caller,
  limit: number,
  cursor?: string,
): Promise<{ permissions: IndexedPermission[]; nextCursor: string | null }> {
  const run = runner(index);
  const { rows, nextCursor } =
    caller.session === undefined
      ? await readCallersPage(run, PENDING, caller, limit, cursor)
      : await sharedPage(run, caller, caller.session, limit, cursor);
  return {
    permissions: rows.map((row) => ({ id: clientRequestId(row.sessionId, row.seq), ...row })),
    nextCursor,
  };
}

/** Within a session, the order of the log is the order of age. */
const OF_SESSION: CallersTable<PermissionRow> = {
  ...PENDING,
  order: [
    ["sessionId", String],
    ["seq", Number],
  ],
};

/** The bearer of a share link sees one session. */
async function sharedPage(
  run: Run,
  caller: Caller,
  session: string,
  limit: number,
  cursor: string | undefined,
): Promise<KeysetPage<PermissionRow>> {
  const filters = [{ where: "tenant = ? AND session = ?", values: [caller.tenant, session] }];
  const query = pageQuery(OF_SESSION, filters, limit, readCursor(OF_SESSION, cursor));
  const rows = await run<PermissionRow>(query);
  return pageFrom(
    OF_SESSION,
    rows.filter(({ workspace }) => mayUseWorkspace(caller, workspace)),
    limit,
  );
}

/**
 * Replaces all rows of one session, unless a write that has seen more of the log came first. The statements
 * must follow the write of the session's own row in the same batch.
 */
export function replacePermissions(
  index: D1Database,
  entry: { sessionId: string; lastSeq: number; tenant: string; workspace: string; permissions: string },
): D1PreparedStatement[] {
  const { sessionId, lastSeq, tenant, workspace, permissions } = entry;
  const isNewest = "(SELECT last_seq FROM sessions WHERE tenant = ?3 AND id = ?1) = ?2";
  return [
    index
      .prepare(`DELETE FROM permissions WHERE tenant = ?3 AND session = ?1 AND ${isNewest}`)
      .bind(sessionId, lastSeq, tenant),
    index
      .prepare(
        `INSERT INTO permissions (session, seq, tenant, workspace, tool_call_id, title, kind, options, requested_at)
         SELECT ?1, value ->> 'seq', ?3, ?4, value ->> 'toolCallId', value ->> 'title', value ->> 'kind',
           value -> 'options', value ->> 'since'
         FROM json_each(?5) WHERE ${isNewest}`,
      )
      .bind(sessionId, lastSeq, tenant, workspace, permissions),
  ];
}
