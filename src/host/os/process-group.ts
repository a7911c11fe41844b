/** What agents and terminals share: a process group to end. */
import { setTimeout as sleep } from "node:timers/promises";

/** Hears of every process group that is started and of its end. */
export type ProcessGroupListener = { began(leader: number): void; ended(leader: number): void };

/**
 * Ends a process group: politely, then not. Launchers leave the native agent running when they get a
 * signal, so the leader's exit says nothing about the rest. Resolves when the group is gone or was killed.
 */
export async function endGroup(leader: number, killAfterMs: number): Promise<void> {
  const deadline = Date.now() + killAfterMs;
  for (let alive = signalGroup(leader, "SIGTERM"); alive; alive = groupLives(leader)) {
    if (Date.now() >= deadline) {
      signalGroup(leader, "SIGKILL");
      return;
    }
    await sleep(20);
  }
}

/** Whether any process of the group is left. */
export function groupLives(leader: number): boolean {
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
