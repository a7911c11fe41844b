import { recordOf } from "../../../protocol/json-value.ts";
import { jsonChars } from "../state/bounded-values.ts";
import { isTerminalItem } from "../state/terminal-meta.ts";
import type { ShownTerminal } from "../state/terminals.ts";

/** A longer content is not logged a second time: clients get it without its terminals. */
const CONTENT_CHARS = 256 * 1024;

/**
 * The content of a tool call with the commands and outputs of its terminals as text, for clients that do not know the
 * terminals; undefined if there is nothing to tell of them.
 */
export function plainContent(
  content: unknown,
  terminals: readonly ShownTerminal[],
): readonly unknown[] | undefined {
  const texts = new Map(terminals.flatMap(textEntry));
  if (texts.size === 0) return undefined;
  const items: unknown[] = Array.isArray(content) ? content : [];
  if (jsonChars(items, CONTENT_CHARS) === undefined) return undefined;
  const named = items.filter(isTerminalItem).map((item) => recordOf(item).terminalId);
  const unnamed = [...texts.keys()].filter((id) => !named.includes(id));
  const inPlace = items.flatMap((item) =>
    isTerminalItem(item) ? (texts.get(recordOf(item).terminalId) ?? []) : [item],
  );
  return [...inPlace, ...unnamed.map((id) => texts.get(id))];
}

/** The text of a terminal by the terminal's id, if there is any. */
function textEntry({ id, command, output, omitted, exit }: ShownTerminal): [unknown, object][] {
  if (command === null && output === "") return [];
  const lines = [
    command === null ? "" : `$ ${command}`,
    omitted === 0 ? "" : `… ${omitted} characters are left out …`,
    output.replace(/\n$/, ""),
    exit ? ending(exit) : "",
  ];
  const text = lines.filter((line) => line !== "").join("\n");
  const fence = fenceFor(text);
  const block = { type: "text", text: `${fence}\n${text}\n${fence}` };
  return [[id, { type: "content", content: block }]];
}

/** A command that succeeded needs no remark. */
function ending({ code, signal }: NonNullable<ShownTerminal["exit"]>): string {
  if (signal !== null) return `[ended by ${signal}]`;
  return code === 0 || code === null ? "" : `[exit code ${code}]`;
}

/** A fence of Markdown that is longer than any run of backticks in the text. */
function fenceFor(text: string): string {
  const runs = text.match(/`{3,}/g) ?? [];
  return "`".repeat(runs.reduce((longest, { length }) => Math.max(longest, length + 1), 3));
}
