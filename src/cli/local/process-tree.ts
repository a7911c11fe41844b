import { execFileSync } from "node:child_process";

export type ProcessEntry = { pid: number; parent: number; command: string };

/** Command lines of other programs may be long: Linux allows 2 MiB each. */
const TABLE_BYTES = 256 * 1024 * 1024;

/** All current descendants of a process, except zombies. */
export function descendants(pid: number): ProcessEntry[] {
  const table = processTable();
  const below = (parent: number): ProcessEntry[] =>
    table.filter((proc) => proc.parent === parent).flatMap((proc) => [proc, ...below(proc.pid)]);
  return below(pid);
}

export function processTable(): ProcessEntry[] {
  return execFileSync("ps", ["-eo", "pid=,ppid=,stat=,args="], { encoding: "utf8", maxBuffer: TABLE_BYTES })
    .split("\n")
    .flatMap((line) => {
      const [, pid, parent, stat = "", command = ""] =
        /^(\d+)\s+(\d+)\s+(\S+)\s+(\S.*)$/.exec(line.trim()) ?? [];
      const counts = pid !== undefined && !stat.startsWith("Z") && !command.startsWith("ps -eo pid=");
      return counts ? [{ pid: Number(pid), parent: Number(parent), command }] : [];
    });
}
