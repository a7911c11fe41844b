import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** What Linux tells of processes. Elsewhere nothing is known, and whoever asks goes without. */

export type LinuxProcess = {
  pid: number;
  group: number;
  /** In clock ticks since the machine was started: with the number it names a process, which a number alone does not. */
  startedAt: string;
};

/** Undefined if there is no such process. */
export function findProcess(pid: number): LinuxProcess | undefined {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The name of the program comes before the rest, in brackets, and may contain anything.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [group, startedAt] = [fields[2], fields[19]];
  return group === undefined || startedAt === undefined
    ? undefined
    : { pid, group: Number(group), startedAt };
}

export function listProcesses(): LinuxProcess[] {
  try {
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    return pids.flatMap((pid) => findProcess(Number(pid)) ?? []);
  } catch {
    return [];
  }
}

/** Memory in use, in bytes. */
export function memoryOf(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`) ?? "")?.[1];
  return 1024 * Number(kilobytes ?? 0);
}

/** Whether a process was started with this variable; false for those of others. */
export function hasVariable(pid: number, name: string, value: string): boolean {
  return (read(`/proc/${pid}/environ`) ?? "").split("\0").includes(`${name}=${value}`);
}

/** Process numbers mean something only until the machine is started again, and only in one container. */
export function processScope(): { boot: string; namespace: string } | undefined {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return { boot, namespace: readlinkSync("/proc/self/ns/pid") };
  } catch {
    return undefined;
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return undefined;
  }
}
