import { setTimeout as sleep } from "node:timers/promises";

/** An observer of process groups. */
export type ProcessGroupListener = { groupStarted(leader: number): void; groupEnded(leader: number): void };

/**
 * Ends a process group with SIGTERM, and with SIGKILL after `killAfterMs`. The exit of the leader is not enough: some
 * launchers leave the native agent running when they get a signal. Resolves when the group is gone or was killed.
 */
export async function endGroup(leader: number, killAfterMs: number): Promise<void> {
  const deadline = Date.now() + killAfterMs;
  for (let alive = signalGroup(leader, "SIGTERM"); alive; alive = isGroupAlive(leader)) {
    if (Date.now() >= deadline) {
      signalGroup(leader, "SIGKILL");
      return;
    }
    await sleep(20);
  }
}

/** Whether any process of the group is left. */
export function isGroupAlive(leader: number): boolean {
  return signalGroup(leader, 0);
}

/** False if there is no such group. */
function signalGroup(leader: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-leader, signal);
  } catch {
    return false;
  }
}
