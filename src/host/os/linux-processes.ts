import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Processes as Linux lists them in /proc. On other systems nothing is known, and callers do without. */

export type LinuxProcess = {
  pid: number;
  parent: number;
  group: number;
  /** In clock ticks since boot. Process numbers are reused; number and start time together identify a process. */
  startedAt: string;
};

/** Undefined if there is no such process. */
export function findProcess(pid: number): LinuxProcess | undefined {
  const stat = read(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The program's name precedes these fields in parentheses and may itself contain any character.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, parent, group, startedAt] = [fields[0], fields[1], fields[2], fields[19]];
  return group === undefined || startedAt === undefined || state === "Z"
    ? undefined
    : { pid, parent: Number(parent), group: Number(group), startedAt };
}

export function listProcesses(): LinuxProcess[] {
  try {
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    return pids.flatMap((pid) => findProcess(Number(pid)) ?? []);
  } catch {
    return [];
  }
}

/** Resident memory in bytes. */
export function memoryOf(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(read(`/proc/${pid}/status`) ?? "")?.[1];
  return 1024 * Number(kilobytes ?? 0);
}

/** The variable that a process was started with; undefined for processes of other users. */
export function variableOf(pid: number, name: string): string | undefined {
  const text = `\0${read(`/proc/${pid}/environ`) ?? ""}`;
  const at = text.indexOf(`\0${name}=`);
  if (at < 0) return undefined;
  const start = at + name.length + 2;
  const end = text.indexOf("\0", start);
  return text.slice(start, end < 0 ? undefined : end);
}

/** Process numbers are valid only until the next boot, and only within one container. */
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
