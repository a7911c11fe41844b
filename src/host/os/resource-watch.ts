import { listProcesses, memoryOf } from "./linux-processes.ts";

/** What one agent may use, with all that it has started in its process groups. */
export type ResourceLimits = { memoryBytes?: number | undefined; processes?: number | undefined };

/** Whoever is over a limit is told so, and ended. */
type Watched = { readonly groups: readonly number[]; kill(reason: string): void };

const MEGABYTE = 1024 * 1024;

/** Looks now and then at what agents use. A limit that must hold at any moment is the business of a container. */
export class ResourceWatch {
  readonly #limits: ResourceLimits;
  readonly #watched: () => Iterable<Watched>;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(limits: ResourceLimits, everyMs: number, watched: () => Iterable<Watched>) {
    this.#limits = limits;
    this.#watched = watched;
    if (limits.memoryBytes !== undefined || limits.processes !== undefined)
      this.#timer = setInterval(() => this.#look(), everyMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const watched = [...this.#watched()];
    if (watched.length === 0) return;
    const byGroup = Map.groupBy(listProcesses(), ({ group }) => group);
    for (const one of watched) {
      const pids = one.groups.flatMap((group) => byGroup.get(group) ?? []).map(({ pid }) => pid);
      const reason = this.#excess(pids);
      if (reason !== undefined) one.kill(reason);
    }
  }

  #excess(pids: readonly number[]): string | undefined {
    const { memoryBytes, processes } = this.#limits;
    if (processes !== undefined && pids.length > processes)
      return `the agent was over its limit of processes: ${pids.length}, ${processes} are allowed`;
    if (memoryBytes === undefined) return undefined;
    const used = pids.reduce((sum, pid) => sum + memoryOf(pid), 0);
    if (used <= memoryBytes) return undefined;
    const megabytes = (bytes: number) => Math.round(bytes / MEGABYTE);
    return `the agent was out of its memory limit: ${megabytes(used)} MB, ${megabytes(memoryBytes)} MB are allowed`;
  }
}
