import type { Deadlines } from "../durable/deadlines.ts";
import { type WorkspaceRow, writeWorkspace } from "../index/workspace-index.ts";
import type { WorkspaceStore } from "./store.ts";

/** Writes the workspace's row of the index when the row differs from the last one written. */
export class WorkspaceIndexWriter {
  readonly #index: D1Database;
  readonly #store: WorkspaceStore;
  readonly #timers: Pick<Deadlines<"index">, "setUnlessSet">;
  readonly #retryMs: number;

  constructor(
    index: D1Database,
    store: WorkspaceStore,
    timers: Pick<Deadlines<"index">, "setUnlessSet">,
    retryMs: number,
  ) {
    this.#index = index;
    this.#store = store;
    this.#timers = timers;
    this.#retryMs = retryMs;
  }

  async write(row: WorkspaceRow): Promise<void> {
    if (JSON.stringify(row) === JSON.stringify(this.#store.get<WorkspaceRow>(WRITTEN))) return;
    try {
      await writeWorkspace(this.#index, row, Date.now());
      this.#store.set(WRITTEN, row);
    } catch (error) {
      console.error("index write failed", { tenant: row.tenant, workspace: row.id, error: String(error) });
      this.#timers.setUnlessSet("index", Date.now() + this.#retryMs);
    }
  }
}

const WRITTEN = "indexed";
