/** Child processes that end with the benchmark. */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";

const GRACE_MS = 3_000;

const alive = new Set<ChildProcess>();

process.on("exit", () => {
  for (const child of alive) child.kill("SIGKILL");
});

export function start(command: readonly [string, ...string[]], options: SpawnOptions): ChildProcess {
  const [file, ...args] = command;
  const child = spawn(file, args, options);
  alive.add(child);
  child.once("exit", () => alive.delete(child));
  child.once("error", () => alive.delete(child));
  return child;
}

export async function end(child: ChildProcess): Promise<void> {
  if (!alive.has(child)) return;
  const exited = once(child, "exit");
  child.kill("SIGTERM");
  if ((await Promise.race([exited, sleep(GRACE_MS, "late", { ref: false })])) === "late") {
    child.kill("SIGKILL");
    await exited;
  }
}
