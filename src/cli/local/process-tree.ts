import { execFileSync } from "node:child_process";

export type ProcessEntry = { pid: number; parent: number; command: string };

/** All current descendants of a process, except zombies. */
export function descendants(pid: number): ProcessEntry[] {
  const table = processTable();
  const below = (parent: number): ProcessEntry[] =>
    table.filter((proc) => proc.parent === parent).flatMap((proc) => [proc, ...below(proc.pid)]);
  return below(pid);
}

export function processTable(): ProcessEntry[] {
  return execFileSync("ps", ["-eo", "pid=,ppid=,stat=,args="], { encoding: "utf8" })
    .split("\n")
    .flatMap((line) => {
      const [, pid, parent, stat = "", command = ""] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? [];
      const counts = pid !== undefined && !stat.startsWith("Z") && !command.startsWith("ps -eo pid=");
      return counts ? [{ pid: Number(pid), parent: Number(parent), command }] : [];
    });
}
