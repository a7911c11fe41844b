import type { Run } from "./state.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The terminals that clients serve, each with its connection: later requests for a terminal go where it was created. */

/** A client answered `terminal/create`. */
export function addTerminal({ terminals }: Run, result: unknown, connection: string): void {
  const id = terminalIdIn(result);
  if (id === undefined || id.length > STATE_BUDGET.terminalIdChars) return;
  terminals.push({ id, connection });
  if (terminals.length > STATE_BUDGET.clientTerminals) terminals.shift();
}

/** The agent asked to release the terminal, and will not name it again. */
export function dropTerminal(run: Run, params: unknown): void {
  const released = terminalIdIn(params);
  run.terminals = run.terminals.filter(({ id }) => id !== released);
}

function terminalIdIn(value: unknown): string | undefined {
  const id = (value as { terminalId?: unknown } | null | undefined)?.terminalId;
  return typeof id === "string" ? id : undefined;
}
