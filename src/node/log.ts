/** One line per event, on stderr: stdout belongs to nobody here, but people pipe things. */
export type Log = (event: string) => void;

export const logToStderr: Log = (event) => {
  process.stderr.write(`${new Date().toISOString()} host: ${event.replace(/\s*\n\s*/g, " ")}\n`);
};

/** Says what went wrong in a few words, whatever was thrown. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
