import type { WorkspaceStore } from "../store.ts";

/** The modes of each agent, as its last session in the workspace had them. Agents tell modes per session only. */
export class AgentModes {
  readonly #store: WorkspaceStore;

  constructor(store: WorkspaceStore) {
    this.#store = store;
  }

  of(agent: string): readonly string[] {
    return this.#all()[agent] ?? [];
  }

  /** Keeps the modes of an agent. The oldest entry goes when there are too many agents. */
  set(agent: string, modes: readonly string[]): void {
    if (!this.#store.exists) return;
    const { [agent]: _, ...others } = this.#all();
    const kept = Object.entries(others).slice(1 - AGENTS);
    this.#store.set(NAME, Object.fromEntries([...kept, [agent, modes]]));
  }

  #all(): Readonly<Record<string, readonly string[]>> {
    return this.#store.get(NAME) ?? {};
  }
}

const NAME = "agent-modes";

/** As many agents as a host may offer. */
const AGENTS = 100;
