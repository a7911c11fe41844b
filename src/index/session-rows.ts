import { pendingPermissions, sessionStatus } from "../session/core/read/projection.ts";
import type { SessionState } from "../session/core/state/state.ts";

/** A session's line in the D1 index, as it is written here and read by `http/session-index.ts`. */
export type IndexRow = {
  sessionId: string;
  tenant: string;
  workspace: string;
  agent: string;
  cwd: string;
  /** As its client named it when it asked for the session. */
  clientCwd: string;
  title: string | null;
  state: string;
  createdAt: string;
  updatedAt: string;
  lastSeq: number;
};

/** The columns of its fields. */
export const INDEX_COLUMNS: Readonly<Record<keyof IndexRow, string>> = {
  sessionId: "id",
  tenant: "tenant",
  workspace: "workspace",
  agent: "agent",
  cwd: "cwd",
  clientCwd: "client_cwd",
  title: "title",
  state: "state",
  createdAt: "created_at",
  updatedAt: "updated_at",
  lastSeq: "last_seq",
};

/** With what waits for an answer, as JSON. */
export type IndexEntry = IndexRow & { permissions: string };

export function indexRow(state: SessionState): IndexEntry | undefined {
  const { identity, run } = state;
  if (identity?.request == null) return undefined;
  return {
    sessionId: state.sessionId,
    tenant: identity.tenant,
    workspace: identity.workspace,
    agent: identity.agent,
    cwd: run?.root ?? identity.cwd,
    clientCwd: identity.cwd,
    title: state.acp.info.title,
    state: sessionStatus(state),
    createdAt: new Date(state.createdAt).toISOString(),
    updatedAt: new Date(state.lastAt).toISOString(),
    lastSeq: state.lastSeq,
    permissions: JSON.stringify(pendingPermissions(state)),
  };
}

/** Writes may overtake each other; the one that knows more of the log wins. */
export async function writeIndex(index: D1Database, row: IndexEntry): Promise<void> {
  await index.batch([sessionRow(index, row), ...permissionRows(index, row)]);
}

function sessionRow(index: D1Database, row: IndexRow): D1PreparedStatement {
  const fields = Object.keys(INDEX_COLUMNS) as (keyof IndexRow)[];
  return index
    .prepare(
      `INSERT INTO sessions (${Object.values(INDEX_COLUMNS).join(", ")})
       VALUES (${fields.map(() => "?").join(", ")})
       ON CONFLICT (tenant, id) DO UPDATE SET cwd = excluded.cwd, title = excluded.title, state = excluded.state,
         updated_at = excluded.updated_at, last_seq = excluded.last_seq
       WHERE excluded.last_seq > sessions.last_seq`,
    )
    .bind(...fields.map((field) => row[field]));
}

/** What waits is replaced as a whole, unless the line written before this knows more. */
function permissionRows(index: D1Database, entry: IndexEntry) {
  const { sessionId, lastSeq, tenant, workspace, permissions } = entry;
  const newest = "(SELECT last_seq FROM sessions WHERE tenant = ?3 AND id = ?1) = ?2";
  return [
    index
      .prepare(`DELETE FROM permissions WHERE tenant = ?3 AND session = ?1 AND ${newest}`)
      .bind(sessionId, lastSeq, tenant),
    index
      .prepare(
        `INSERT INTO permissions (session, seq, tenant, workspace, tool_call_id, title, kind, options, requested_at)
         SELECT ?1, value ->> 'seq', ?3, ?4, value ->> 'toolCallId', value ->> 'title', value ->> 'kind',
           value -> 'options', value ->> 'since'
         FROM json_each(?5) WHERE ${newest}`,
      )
      .bind(sessionId, lastSeq, tenant, workspace, permissions),
  ];
}

export async function removeFromIndex(
  index: D1Database,
  { tenant, sessionId }: Pick<IndexRow, "tenant" | "sessionId">,
): Promise<void> {
  await index.batch([
    index.prepare("DELETE FROM sessions WHERE tenant = ? AND id = ?").bind(tenant, sessionId),
    index.prepare("DELETE FROM permissions WHERE tenant = ? AND session = ?").bind(tenant, sessionId),
  ]);
}
