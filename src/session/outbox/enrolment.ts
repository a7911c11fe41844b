import { callObject } from "../../durable/object-call.ts";
import { workspaceObject } from "../../durable/objects.ts";
import type { SessionState } from "../core/state/state.ts";

/** Makes the session known to its workspace, which can then have the session write its row of the index anew. */
export class Enrolment {
  readonly #kv: SyncKvStorage;
  readonly #env: Env;
  readonly #isCurrent: (state: SessionState) => boolean;
  readonly #callMs: number;
  #isDone: boolean;

  constructor(kv: SyncKvStorage, env: Env, callMs: number, isCurrent: (state: SessionState) => boolean) {
    this.#kv = kv;
    this.#env = env;
    this.#callMs = callMs;
    this.#isCurrent = isCurrent;
    this.#isDone = kv.get(ENROLLED) === true;
  }

  /** The workspace knows the session. */
  markDone(state: SessionState): void {
    if (this.#isDone || !this.#isCurrent(state)) return;
    this.#isDone = true;
    this.#kv.put(ENROLLED, true);
  }

  async complete(state: SessionState): Promise<void> {
    const { identity, sessionId } = state;
    if (this.#isDone || !identity) return;
    const { tenant, workspace } = identity;
    await callObject(
      () => workspaceObject(this.#env, tenant, workspace),
      (object) => object.enroll({ tenant, workspace }, sessionId),
      { timeoutMs: this.#callMs },
    );
    this.markDone(state);
  }
}

const ENROLLED = "enrolled";
