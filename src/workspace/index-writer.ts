import { callObject } from "../durable/object-call.ts";
import { tenantObject } from "../durable/objects.ts";
import { type WorkspaceRow, writeWorkspace } from "../index/workspace-index.ts";
import type { WorkspaceStore } from "./store.ts";

/** Writes the workspace's row of the index when the row differs from the last one written. */
export class WorkspaceIndexWriter {
  readonly #env: Env;
  readonly #store: WorkspaceStore;

  constructor(env: Env, store: WorkspaceStore) {
    this.#env = env;
    this.#store = store;
  }

  /** Whether the row has been written before, and the tenant knows the workspace. */
  get isKnown(): boolean {
    return this.#store.get(WRITTEN) !== undefined && this.#store.get(ENROLLED) === true;
  }

  /** Serves a deadline: a failure is repeated. */
  async write(row: WorkspaceRow, { isForced = false } = {}): Promise<void> {
    const isWritten = JSON.stringify(row) === JSON.stringify(this.#store.get<WorkspaceRow>(WRITTEN));
    if (!isWritten || isForced) {
      await writeWorkspace(this.#env.INDEX, row, Date.now());
      this.#store.set(WRITTEN, row);
    }
    await this.#enroll(row);
  }

  /** The tenant keeps the names of its workspaces, to find them when the index is lost. */
  async #enroll({ tenant, id }: WorkspaceRow): Promise<void> {
    if (this.#store.get(ENROLLED) === true) return;
    await callObject(
      () => tenantObject(this.#env, tenant),
      (object) => object.enrollWorkspace(id),
    );
    this.#store.set(ENROLLED, true);
  }
}

const WRITTEN = "indexed";
const ENROLLED = "enrolled";
