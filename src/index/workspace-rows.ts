import type { Identity } from "../workspace/store.ts";
import type { WorkspaceView } from "../workspace/view.ts";

/** A workspace's line in the D1 index, as it is written here and read by `http/workspace-index.ts`. */
export type IndexRow = {
  tenant: string;
  id: string;
  name: string | null;
  root: string | null;
  branch: string | null;
  defaultAgent: string | null;
  /** Connected ones. */
  hosts: number;
};

/** The columns of its fields. */
export const INDEX_COLUMNS: Readonly<Record<keyof IndexRow | "updatedAt", string>> = {
  tenant: "tenant",
  id: "id",
  name: "name",
  root: "root",
  branch: "branch",
  defaultAgent: "default_agent",
  hosts: "hosts",
  updatedAt: "updated_at",
};

export function indexRow({ tenant, workspace }: Identity, view: WorkspaceView): IndexRow {
  return {
    tenant,
    id: workspace,
    name: view.name,
    root: view.root,
    branch: view.git?.branch ?? null,
    defaultAgent: view.agents.find((agent) => agent.default)?.id ?? view.defaultAgent,
    hosts: view.hosts.filter(({ state }) => state !== "gone").length,
  };
}

export async function writeIndex(index: D1Database, row: IndexRow, updatedAt: number): Promise<void> {
  const line = { ...row, updatedAt: new Date(updatedAt).toISOString() };
  const fields = Object.keys(INDEX_COLUMNS) as (keyof typeof line)[];
  await index
    .prepare(
      `INSERT OR REPLACE INTO workspaces (${Object.values(INDEX_COLUMNS).join(", ")})
       VALUES (${fields.map(() => "?").join(", ")})`,
    )
    .bind(...fields.map((field) => line[field]))
    .run();
}
