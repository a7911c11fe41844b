import type { Caller } from "../protocol/caller.ts";
import { isoTime } from "../protocol/iso-time.ts";
import type { WorkspaceList, WorkspaceSummary } from "../protocol/rest.ts";
import { type CallersTable, readCallersPage } from "./callers-page.ts";
import { runner } from "./runner.ts";

/** The row of a workspace in the D1 table `workspaces`, without the time of its last write. Its WorkspaceState object writes it. */
export type WorkspaceRow = Omit<WorkspaceSummary, "updatedAt"> & { tenant: string };

const COLUMNS: Readonly<Record<keyof WorkspaceRow | "updatedAt", string>> = {
  tenant: "tenant",
  id: "id",
  name: "name",
  root: "root",
  branch: "branch",
  defaultAgent: "default_agent",
  hosts: "hosts",
  updatedAt: "updated_at",
};
const FIELDS = Object.keys(COLUMNS) as (keyof typeof COLUMNS)[];

const { tenant: _, ...SHOWN } = COLUMNS;
const SUMMARIES: CallersTable<WorkspaceSummary> = {
  workspace: "id",
  name: "workspaces",
  columns: SHOWN,
  order: [
    ["updatedAt", String],
    ["id", String],
  ],
  direction: "DESC",
};

/** A page of the workspaces that the caller may use, the latest changed first. The bearer of a share link sees none. */
export async function listWorkspaces(
  index: D1Database,
  caller: Caller,
  limit: number,
  cursor: string | undefined,
): Promise<WorkspaceList> {
  if (caller.session !== undefined) return { workspaces: [], nextCursor: null };
  const { rows, nextCursor } = await readCallersPage(runner(index), SUMMARIES, caller, limit, cursor);
  return { workspaces: rows, nextCursor };
}

export async function writeWorkspace(index: D1Database, row: WorkspaceRow, updatedAt: number): Promise<void> {
  const line = { ...row, updatedAt: isoTime(updatedAt) };
  await index
    .prepare(
      `INSERT OR REPLACE INTO workspaces (${Object.values(COLUMNS).join(", ")})
       VALUES (${FIELDS.map(() => "?").join(", ")})`,
    )
    .bind(...FIELDS.map((field) => line[field]))
    .run();
}
