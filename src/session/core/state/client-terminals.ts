import type { Run } from "./state.ts";

/** Which client has which terminal of the agent, as the fold keeps it: a terminal is where it was made. */

/** Part of the fold, as KEEP is. */
const TERMINALS = 100;
const ID_CHARS = 200;

/** A client has answered `terminal/create`. */
export function addTerminal({ terminals }: Run, result: unknown, connection: string): void {
  const id = terminalIdIn(result);
  if (id === undefined || id.length > ID_CHARS) return;
  terminals.push({ id, connection });
  if (terminals.length > TERMINALS) terminals.shift();
}

/** The agent has asked for its release: it will not ask for it again. */
export function dropTerminal(run: Run, params: unknown): void {
  const released = terminalIdIn(params);
  run.terminals = run.terminals.filter(({ id }) => id !== released);
}

function terminalIdIn(value: unknown): string | undefined {
  const id = (value as { terminalId?: unknown } | null | undefined)?.terminalId;
  return typeof id === "string" ? id : undefined;
}
