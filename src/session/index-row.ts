import { sessionStatus } from "./projection.ts";
import type { SessionState } from "./state.ts";

/** A session's line in the D1 index. */
export type IndexRow = {
  id: string;
  tenant: string;
  workspace: string;
  agent: string;
  cwd: string;
  title: string | null;
  state: string;
  createdAt: string;
  updatedAt: string;
  lastSeq: number;
};

export function indexRow(state: SessionState): IndexRow | undefined {
  const { identity, run } = state;
  if (!identity) return undefined;
  return {
    id: state.sessionId,
    tenant: identity.tenant,
    workspace: identity.workspace,
    agent: identity.agent,
    cwd: run?.root ?? identity.cwd,
    title: state.acp.info.title,
    state: sessionStatus(state),
    createdAt: new Date(state.createdAt).toISOString(),
    updatedAt: new Date(state.lastAt).toISOString(),
    lastSeq: state.lastSeq,
  };
}

/** Writes may overtake each other; the one that knows more of the log wins. */
export async function writeIndex(index: D1Database, row: IndexRow): Promise<void> {
  await index
    .prepare(
      `INSERT INTO sessions (id, tenant, workspace, agent, cwd, title, state, created_at, updated_at, last_seq)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (id) DO UPDATE SET cwd = excluded.cwd, title = excluded.title, state = excluded.state,
         updated_at = excluded.updated_at, last_seq = excluded.last_seq
       WHERE excluded.last_seq > sessions.last_seq`,
    )
    .bind(
      row.id,
      row.tenant,
      row.workspace,
      row.agent,
      row.cwd,
      row.title,
      row.state,
      row.createdAt,
      row.updatedAt,
      row.lastSeq,
    )
    .run();
}

export async function removeFromIndex(index: D1Database, sessionId: string): Promise<void> {
  await index.prepare("DELETE FROM sessions WHERE id = ?").bind(sessionId).run();
}
