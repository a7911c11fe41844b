import { clip } from "../../../protocol/clipped-text.ts";
import type { JsonObject } from "../../../protocol/json-value.ts";
import { idOf } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";
import { namedTerminals, terminalMeta } from "./terminal-meta.ts";

/**
 * A terminal of the running process whose output clients may see: the host or a client serves it, or the agent runs the
 * command itself.
 */
export type ShownTerminal = {
  id: string;
  /** The connection whose client serves the terminal. */
  client?: string;
  /** The tool call that first mentioned the terminal. */
  toolCallId: string | null;
  /** The event by which clients that know the convention were told of the terminal. */
  announcedAt: number | null;
  command: string | null;
  cwd: string | null;
  /** The end of the output, and the number of characters before it. */
  output: string;
  omitted: number;
  exit: TerminalExit | null;
  /** How much of the output clients have as text: nothing yet, a part, everything. */
  told: "nothing" | "part" | "all";
};

export type TerminalExit = { code: number | null; signal: string | null };

/** The state as far as terminals change it. Older states have no list. */
type WithTerminals = { terminals?: ShownTerminal[] };

export function findTerminal({ terminals }: WithTerminals, id: unknown): ShownTerminal | undefined {
  return terminals?.find((terminal) => terminal.id === id);
}

/** The terminals that a tool call shows. */
export function terminalsOf({ terminals }: WithTerminals, toolCallId: unknown): ShownTerminal[] {
  return terminals?.filter((terminal) => terminal.toolCallId === toolCallId) ?? [];
}

/** The command of a `terminal/create`, until its answer names the terminal. */
export type TerminalOrder = { command: string | null; cwd: string | null };

export function terminalOrder({ command, args, cwd }: JsonObject): TerminalOrder {
  const words = [command, ...(Array.isArray(args) ? args : [])].filter((word) => typeof word === "string");
  return {
    command: words.length === 0 ? null : clip(words.join(" "), STATE_BUDGET.reasonChars),
    cwd: typeof cwd === "string" ? clip(cwd, STATE_BUDGET.pathChars) : null,
  };
}

/** The host, or the client of a connection, has created a terminal. */
export function addServedTerminal(
  state: WithTerminals,
  { terminalId }: JsonObject,
  { command, cwd }: TerminalOrder,
  client: string | undefined,
): void {
  const terminal = add(state, terminalId);
  if (!terminal) return;
  Object.assign(terminal, { command, cwd, ...(client !== undefined && { client }) });
}

/** Folds a tool call: the terminals that its content names, and those of its `_meta`. */
export function foldToolCallTerminals(state: WithTerminals, toolCall: JsonObject, seq: number): void {
  const toolCallId = idOf(toolCall.toolCallId);
  if (toolCallId === undefined) return;
  const { info, output, exit } = terminalMeta(toolCall);
  if (info) {
    const terminal = add(state, info.id);
    if (terminal) terminal.cwd = info.cwd && clip(info.cwd, STATE_BUDGET.pathChars);
  }
  const announced = [announcedBy(toolCall), ...namedTerminals(toolCall.content)];
  for (const id of [...announced, output?.id, exit?.id]) {
    const terminal = add(state, id);
    if (!terminal) continue;
    terminal.toolCallId ??= toolCallId;
    if (announced.includes(id)) terminal.announcedAt ??= seq;
  }
  if (output) addOutput(state, output.id, output.data);
  if (exit) endTerminal(state, exit.id, { code: exit.code, signal: exit.signal });
}

/** The terminal that a tool call announces. By the convention, an update of a tool call cannot. */
export function announcedBy(toolCall: JsonObject): string | undefined {
  return toolCall.sessionUpdate === "tool_call" ? terminalMeta(toolCall).info?.id : undefined;
}

export function addOutput(state: WithTerminals, id: string, data: string): void {
  const terminal = findTerminal(state, id);
  if (!terminal || data === "") return;
  keepTail(terminal, terminal.output + data);
  if (terminal.told === "all") terminal.told = "part";
  makeRoom(state.terminals as ShownTerminal[], terminal);
}

/** The whole output, as a client that serves the terminal has answered. */
export function setOutput(state: WithTerminals, id: unknown, output: unknown): void {
  const terminal = findTerminal(state, id);
  if (terminal?.client === undefined || typeof output !== "string") return;
  terminal.omitted = 0;
  terminal.output = "";
  addOutput(state, terminal.id, output);
}

export function endTerminal(state: WithTerminals, id: unknown, { code, signal }: TerminalExit): void {
  const terminal = findTerminal(state, id);
  if (!terminal) return;
  terminal.exit = { code, signal: signal && clip(signal, STATE_BUDGET.wordChars) };
  if (terminal.told === "all") terminal.told = "part";
}

/** Clients have the output of the tool call's terminals as text. */
export function outputTold(state: WithTerminals, toolCallId: unknown): void {
  for (const terminal of terminalsOf(state, toolCallId)) terminal.told = "all";
}

/** Forgets the terminals of an ended tool call. The output of a command that still runs may go on. */
export function forgetFinished(state: WithTerminals, toolCallId: unknown): void {
  state.terminals = (state.terminals ?? []).filter(
    (terminal) => terminal.toolCallId !== toolCallId || terminal.exit === null || terminal.told !== "all",
  );
}

function add(state: WithTerminals, given: unknown): ShownTerminal | undefined {
  const id = typeof given === "string" && given.length <= STATE_BUDGET.terminalIdChars ? given : undefined;
  if (id === undefined) return undefined;
  const known = findTerminal(state, id);
  if (known) return known;
  const terminal: ShownTerminal = {
    id,
    toolCallId: null,
    announcedAt: null,
    command: null,
    cwd: null,
    output: "",
    omitted: 0,
    exit: null,
    told: "nothing",
  };
  state.terminals ??= [];
  state.terminals.push(terminal);
  if (state.terminals.length > STATE_BUDGET.shownTerminals) state.terminals.shift();
  return terminal;
}

function keepTail(terminal: ShownTerminal, output: string, chars: number = STATE_BUDGET.outputChars): void {
  const over = Math.max(0, output.length - chars);
  terminal.omitted += over;
  terminal.output = over === 0 ? output : output.slice(over);
}

/** Shortens the oldest outputs until all together fit. */
function makeRoom(terminals: readonly ShownTerminal[], latest: ShownTerminal): void {
  let over = terminals.reduce((sum, { output }) => sum + output.length, 0) - STATE_BUDGET.outputsChars;
  for (const terminal of terminals) {
    if (over <= 0) return;
    if (terminal === latest) continue;
    const { length } = terminal.output;
    keepTail(terminal, terminal.output, Math.max(0, length - over));
    over -= length - terminal.output.length;
  }
}
