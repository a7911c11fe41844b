import type { Caller } from "../protocol/caller.ts";
import { inWorkspacesOf } from "./workspace-filter.ts";

type Row = {
  id: string;
  workspace: string;
  agent: string;
  cwd: string;
  client_cwd: string | null;
  title: string | null;
  state: string;
  created_at: string;
  updated_at: string;
  last_seq: number;
};

export type SessionSummary = {
  sessionId: string;
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
  if (cwd !== undefined) {
    where.push("(client_cwd = ? OR cwd = ?)");
    values.push(cwd, cwd);
  }
  if (updatedAt !== undefined && id !== undefined) {
    where.push("(updated_at, id) < (?, ?)");
    values.push(updatedAt, id);
  }
  const { results } = await index
    .prepare(`SELECT * FROM sessions WHERE ${where.join(" AND ")} ORDER BY updated_at DESC, id DESC LIMIT ?`)
    .bind(...values, limit + 1)
    .all<Row>();
  const page = results.slice(0, limit);
  const last = page.at(-1);
  return {
    sessions: page.map(summary),
    nextCursor: results.length > limit && last ? `${last.updated_at} ${last.id}` : null,
  };
}

function summary(row: Row): SessionSummary {
  const { id, created_at, updated_at, last_seq, workspace, agent, cwd, client_cwd, title, state } = row;
  return {
    sessionId: id,
    workspace,
    agent,
    cwd,
    clientCwd: client_cwd ?? cwd,
    title,
    state,
    createdAt: created_at,
    updatedAt: updated_at,
    lastSeq: last_seq,
  };
}
