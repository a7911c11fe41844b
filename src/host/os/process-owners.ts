import { type LinuxProcess, variableOf } from "./linux-processes.ts";
import type { ProcessGroup } from "./process-group.ts";
import { PROCESS_MARK } from "./process-mark.ts";

/** The group that a process belongs to, by the number of its leader, and the mark that the process was started with. */
type Known = { leader: number | undefined; mark: string | undefined };

/**
 * Finds the processes of each owner of process groups: the members of the groups, their descendants, also after their
 * parents have ended, and the processes that carry a group's mark.
 */
export class ProcessOwners {
  readonly #markOf: (pid: number) => string | undefined;
  /** The processes of the last list, by number and start time. */
  #known = new Map<string, Known>();

  constructor(markOf = (pid: number) => variableOf(pid, PROCESS_MARK)) {
    this.#markOf = markOf;
  }

  /** The process numbers of each owner, in the order of the owners. */
  assign(processes: readonly LinuxProcess[], owners: readonly (readonly ProcessGroup[])[]): number[][] {
    const ownerOf = new Map(
      owners.flatMap((groups, at) => groups.map(({ leader }) => [leader, at] as const)),
    );
    const leaderOf = this.#leaders(processes, owners.flat());
    const owned = owners.map((): number[] => []);
    for (const { pid } of processes) {
      const leader = leaderOf.get(pid);
      if (leader !== undefined) owned[ownerOf.get(leader) ?? -1]?.push(pid);
    }
    return owned;
  }

  #leaders(
    processes: readonly LinuxProcess[],
    groups: readonly ProcessGroup[],
  ): ReadonlyMap<number, number | undefined> {
    const leaders = new Set(groups.map(({ leader }) => leader));
    const marks = new Map(groups.map(({ leader, mark }) => [mark, leader]));
    const byPid = new Map(processes.map((process) => [process.pid, process]));
    const found = new Map<number, number | undefined>();
    const next = new Map<string, Known>();

    const find = (process: LinuxProcess): number | undefined => {
      if (found.has(process.pid)) return found.get(process.pid);
      // A list that is read while processes come and go may contain a circle.
      found.set(process.pid, undefined);
      const key = `${process.pid} ${process.startedAt}`;
      const known = this.#known.get(key);
      const parent = byPid.get(process.parent);
      const related = leaders.has(process.group) ? process.group : parent && find(parent);
      const before = known?.leader !== undefined && leaders.has(known.leader) ? known.leader : undefined;
      // A process keeps the environment that it was started with, so each is read once.
      const mark = known ? known.mark : related === undefined ? this.#markOf(process.pid) : undefined;
      const leader = related ?? before ?? (mark === undefined ? undefined : marks.get(mark));
      next.set(key, { leader, mark });
      found.set(process.pid, leader);
      return leader;
    };

    for (const process of processes) find(process);
    this.#known = next;
    return found;
  }
}
