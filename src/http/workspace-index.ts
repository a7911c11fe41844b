import type { Caller } from "../protocol/caller.ts";
import { inWorkspacesOf } from "./workspace-filter.ts";

type Row = {
  id: string;
  name: string | null;
  root: string | null;
  branch: string | null;
  default_agent: string | null;
  hosts: number;
  updated_at: string;
};

export type WorkspaceSummary = {
  id: string;
  name: string | null;
  root: string | null;
  branch: string | null;
  defaultAgent: string | null;
  /** Connected ones. */
  hosts: number;
  updatedAt: string;
};

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
      `SELECT * FROM workspaces WHERE ${where.join(" AND ")} ORDER BY updated_at DESC, id DESC LIMIT ?`,
    )
    .bind(...values, limit + 1)
    .all<Row>();
  const page = results.slice(0, limit);
  const last = page.at(-1);
  return {
    workspaces: page.map(summary),
    nextCursor: results.length > limit && last ? `${last.updated_at} ${last.id}` : null,
  };
}

function summary({ id, name, root, branch, default_agent, hosts, updated_at }: Row): WorkspaceSummary {
  return { id, name, root, branch, defaultAgent: default_agent, hosts, updatedAt: updated_at };
}
