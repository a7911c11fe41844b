import type { Writable } from "node:stream";
import pc from "picocolors";

/** Where text goes, and in which colours: none unless a person reads it on a terminal. */
export type Terminal = {
  readonly stream: Writable & { isTTY?: boolean };
  readonly isTTY: boolean;
  readonly colours: ReturnType<typeof pc.createColors>;
};

export function terminal(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): Terminal {
  const isTTY = stream.isTTY === true;
  return { stream, isTTY, colours: pc.createColors(isTTY && !env.NO_COLOR && env.TERM !== "dumb") };
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it is about.
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

/** Text of others, made safe for a terminal: an agent's words move no cursor and set no title. */
export function printable(text: string): string {
  return text.replace(CONTROLS, "");
}

/** The same on one line, and not too long. */
export function brief(text: string | null | undefined, length = 60): string {
  const line = printable((text ?? "").replace(/\s+/g, " ")).trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Columns as wide as their longest cell; colours are added afterwards, so that they take no room. */
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

/** How long ago, for lists. */
export function ago(time: string, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
