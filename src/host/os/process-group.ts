import { setTimeout as sleep } from "node:timers/promises";
import { findProcess, listProcesses } from "./linux-processes.ts";
import { markedProcesses } from "./process-mark.ts";

/** An observer of process groups. */
export type ProcessGroupListener = { groupStarted(leader: number): void; groupEnded(leader: number): void };

/** The processes of one command. */
export type ProcessGroup = {
  leader: number;
  /** The leader watches a namespace and passes the exit on. It must outlive a polite signal. */
  isWatched?: boolean | undefined;
  /** The mark of the command, by which processes that have left the group are found. A namespace needs none. */
  mark?: string | undefined;
  /** Finds all processes with the mark, where the host itself may not read it. */
  search?: ((mark: string) => Promise<number[]>) | undefined;
};

/**
 * Ends a process group with SIGTERM, and with SIGKILL after `killAfterMs`. The exit of the leader is not enough: some
 * launchers leave the native agent running when they get a signal. With no time the group is killed at once. Resolves
 * when the group is gone or was killed.
 */
export async function endGroup(group: ProcessGroup, killAfterMs: number): Promise<void> {
  const { leader } = group;
  const deadline = Date.now() + killAfterMs;
  const asked = new Set<number>();
  // Each process gets the signal once: for some agents a second one means to leave without saving.
  const ask = (pids: readonly number[]) => {
    for (const pid of pids.filter((pid) => !asked.has(pid))) signal(pid, "SIGTERM");
    for (const pid of pids) asked.add(pid);
  };
  if (!group.isWatched && killAfterMs > 0) signal(-leader, "SIGTERM");
  let strays = await straysOf(group);
  for (;;) {
    const isAlive = isGroupAlive(leader);
    if (!isAlive) strays = await straysOf(group);
    if (!isAlive && strays.length === 0) return;
    if (Date.now() >= deadline) break;
    ask(strays);
    if (isAlive && group.isWatched) ask(membersOf(leader));
    await sleep(isAlive && !group.isWatched ? POLL_MS : SEARCH_MS);
  }
  signal(-leader, "SIGKILL");
  for (const pid of await straysOf(group)) signal(pid, "SIGKILL");
}

/** Ends processes that are found one by one, in the way of a group. */
export async function endProcesses(find: () => readonly number[], killAfterMs: number): Promise<void> {
  const deadline = Date.now() + killAfterMs;
  for (const pid of find()) signal(pid, "SIGTERM");
  while (find().length > 0 && Date.now() < deadline) await sleep(SEARCH_MS);
  for (const pid of find()) signal(pid, "SIGKILL");
}

const POLL_MS = 20;
/** All processes of the machine are listed each time. */
const SEARCH_MS = 50;

/** Marked processes outside the group. */
async function straysOf({ leader, mark, search }: ProcessGroup): Promise<number[]> {
  if (mark === undefined) return [];
  const marked = search ? await search(mark) : markedProcesses(mark);
  return marked.filter((pid) => findProcess(pid)?.group !== leader);
}

/** Whether any process of the group is left. */
export function isGroupAlive(leader: number): boolean {
  return signal(-leader, 0);
}

/** The processes behind the leader; the leader itself as long as it is alone. */
function membersOf(leader: number): number[] {
  const members = listProcesses().flatMap(({ pid, group }) => (group === leader ? [pid] : []));
  return members.length > 1 ? members.filter((pid) => pid !== leader) : members;
}

/** False if there is no such process or group. */
function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}
