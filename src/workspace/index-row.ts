import type { Identity } from "./store.ts";
import type { WorkspaceView } from "./view.ts";

/** A workspace's line in the D1 index. */
export type IndexRow = {
  tenant: string;
  id: string;
  name: string | null;
  root: string | null;
  branch: string | null;
  defaultAgent: string | null;
  hosts: number;
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
  await index
    .prepare(
      `INSERT OR REPLACE INTO workspaces (tenant, id, name, root, branch, default_agent, hosts, updated_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    .bind(
      row.tenant,
      row.id,
      row.name,
      row.root,
      row.branch,
      row.defaultAgent,
      row.hosts,
      new Date(updatedAt).toISOString(),
    )
    .run();
}
