/** What the command's exit code says; `--help` and the README list them. */
export const EXIT = {
  ok: 0,
  error: 1,
  usage: 2,
  unauthorized: 3,
  unreachable: 4,
  notFound: 5,
  turn: 6,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_HELP = `Exit codes:
  0    done
  1    something else went wrong
  2    the command or its configuration is wrong
  3    not authorised: the token is missing, expired or not for this
  4    the gateway cannot be reached
  5    there is no such session, permission, workspace or agent
  6    the turn was refused, failed or stopped at a limit
  130  interrupted`;

/** Ends the command with one plain sentence and a code. */
export class CliError extends Error {
  readonly code: ExitCode;

  constructor(message: string, code: ExitCode, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** What went wrong in a few words, whatever was thrown; `fetch` hides the reason in the cause. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return "no answer in time";
  const { cause } = error;
  // Every address of a name was tried, and each failed: the first says enough.
  if (error instanceof AggregateError && error.errors.length > 0) return describeError(error.errors[0]);
  if (error.message === "fetch failed" && cause instanceof Error) return describeError(cause);
  return error.message;
}
