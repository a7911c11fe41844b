/** Receives one line of text for each event. */
export type Log = (event: string) => void;

/** Logs to stderr, so that stdout stays free for pipes. */
export const logToStderr: Log = (event) => {
  process.stderr.write(
    `${new Date().toISOString()} host: ${event
      .split("\n")
      .map((line) => line.trim())
      .join(" ")}\n`,
  );
};

/** A short text for any thrown value. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
