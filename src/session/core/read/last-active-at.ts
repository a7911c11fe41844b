import type { SessionState } from "../state/state.ts";

/** When the agent last had work; null while it has. */
export function lastActiveAt({ agent, turn, queue, activeAt }: SessionState): number | null {
  return agent === "starting" || turn !== null || queue.length > 0 ? null : activeAt;
}
