import { listProcesses, variableOf } from "./linux-processes.ts";

/**
 * An environment variable with a value of its own for each command that the host starts. A process that leaves its
 * group still has it, unless the process clears its environment. A namespace needs no mark: nothing leaves it.
 */
export const PROCESS_MARK = "ACP_EDGE_PROCESS_MARK";

export function markedProcesses(mark: string): number[] {
  return listProcesses().flatMap(({ pid }) => (variableOf(pid, PROCESS_MARK) === mark ? [pid] : []));
}
