import { z } from "zod";

/** The order to write the index anew: of one workspace, or of the whole tenant. */
export const REINDEX_REQUEST = z.strictObject({ workspace: z.string().min(1).max(200).optional() });
export const REINDEX_QUERY = z.object({ workspace: z.string().min(1).max(200).optional() });

/** How far the rebuilding of the index is. The counts are those of the last order. */
export type ReindexProgress = {
  state: "never" | "running" | "finished";
  startedAt: string | null;
  finishedAt: string | null;
  /** Sessions that have written their row. */
  sessions: number;
  /** Sessions that the index or the workspace knew of and that do not exist. */
  removed: number;
  /** Sessions, or whole workspaces, that could not be reached: give the order again. */
  failed: number;
  /** Workspaces that are finished; null for the order of one workspace. */
  workspaces: number | null;
};

export const NEVER_REINDEXED: ReindexProgress = {
  ...{ state: "never", startedAt: null, finishedAt: null },
  ...{ sessions: 0, removed: 0, failed: 0, workspaces: null },
};

/**
 * A session that its workspace has asked to write its row. `elsewhere`: the session belongs to another workspace.
 */
export type ReindexedSession = "written" | "elsewhere" | "gone";
