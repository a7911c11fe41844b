import { type Terminal, terminal } from "../terminal.ts";

export type OutputOptions = { json?: boolean };

export const stdout: Terminal = terminal(process.stdout, process.env);
export const stderr: Terminal = terminal(process.stderr, process.env);

/** Prints one JSON document for programs, or text for people. */
export function print(options: OutputOptions, value: unknown, toText: () => string): void {
  if (options.json) return printJson(value);
  const text = toText();
  if (text !== "") process.stdout.write(`${text}\n`);
}

export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}

/** Prints a remark for people on stderr, apart from the result. */
export function printNote(text: string): void {
  process.stderr.write(`${text}\n`);
}
