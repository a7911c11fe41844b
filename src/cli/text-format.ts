import type { Terminal } from "./terminal.ts";

/** Control characters except tab and line feed, and those that reorder text. */
const CONTROLS = /(?![\t\n])\p{Cc}|\p{Bidi_Control}|[\u2028\u2029]/gu;

/** Makes foreign text safe for a terminal, so that an agent's output cannot move the cursor, set the title or reorder a line. */
export function printable(text: string): string {
  return text.replace(CONTROLS, "");
}

/** Printable text on one line, shortened to `length`. */
export function brief(text: string | null | undefined, length = 60): string {
  const line = printable((text ?? "").replace(/\s+/g, " ")).trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Columns as wide as their longest cell. Colours are added last, so that they do not count as width. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  { colours }: Terminal,
): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    cells.map((cell, at) => (at === cells.length - 1 ? cell : cell.padEnd(widths[at] ?? 0))).join("  ");
  return [colours.bold(line(head)), ...rows.map(line)].join("\n");
}

/** The time since `time` in its largest unit, such as `5m`. */
export function ago(time: string, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
