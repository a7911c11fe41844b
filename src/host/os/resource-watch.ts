import { listProcesses, memoryOf } from "./linux-processes.ts";
import type { ProcessGroup } from "./process-group.ts";
import { ProcessOwners } from "./process-owners.ts";

/** The resources that one agent may use, counting all processes that it and its terminals have started. */
export type ResourceLimits = { memoryBytes?: number | undefined; processes?: number | undefined };

/** A user of resources that is killed when it exceeds a limit. */
type Watched = { readonly groups: readonly ProcessGroup[]; kill(reason: string): void };

const MEGABYTE = 1024 * 1024;

/** Measures the resources of agents periodically. A limit that must hold at every moment needs a container. */
export class ResourceWatch {
  readonly #limits: ResourceLimits;
  readonly #watched: () => Iterable<Watched>;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #owners = new ProcessOwners();

  constructor(limits: ResourceLimits, everyMs: number, watched: () => Iterable<Watched>) {
    this.#limits = limits;
    this.#watched = watched;
    if (limits.memoryBytes !== undefined || limits.processes !== undefined)
      this.#timer = setInterval(() => this.#measure(), everyMs).unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #measure(): void {
    const watched = [...this.#watched()];
    if (watched.length === 0) return;
    const owned = this.#owners.assign(
      listProcesses(),
      watched.map(({ groups }) => groups),
    );
    for (const [at, user] of watched.entries()) {
      const reason = this.#excess(owned[at] ?? []);
      if (reason !== undefined) user.kill(reason);
    }
  }

  #excess(pids: readonly number[]): string | undefined {
    const { memoryBytes, processes } = this.#limits;
    if (processes !== undefined && pids.length > processes)
      return `the agent exceeded its process limit: ${pids.length} processes, ${processes} are allowed`;
    if (memoryBytes === undefined) return undefined;
    const used = pids.reduce((sum, pid) => sum + memoryOf(pid), 0);
    if (used <= memoryBytes) return undefined;
    const megabytes = (bytes: number) => Math.round(bytes / MEGABYTE);
    return `the agent exceeded its memory limit: ${megabytes(used)} MB, ${megabytes(memoryBytes)} MB are allowed`;
  }
}
