/** The exit codes of the command. They are documented in `--help`. */
export const EXIT = {
  ok: 0,
  error: 1,
  usage: 2,
  unauthorized: 3,
  unreachable: 4,
  notFound: 5,
  turn: 6,
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_HELP = `Exit codes:
  0    success
  1    any other failure
  2    wrong usage or configuration
  3    not authorised: the token is missing, expired or does not allow this
  4    the gateway cannot be reached
  5    no such session, permission, question, workspace or agent
  6    the turn was refused, failed or stopped at a limit
  7    host: the gateway speaks another version of the host link
  8    host: another host took over this host's name while it was out of reach
  9    host: agents cannot be isolated as demanded
  130  interrupted by Ctrl-C
  143  ended by SIGTERM; connect ends with 0, because editors end their agents so`;

/** Ends the command with a message and an exit code. */
export class CliError extends Error {
  readonly code: ExitCode;

  constructor(message: string, code: ExitCode, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A short text for any thrown value. `fetch` hides the reason of a failure in its cause. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return "no answer in time";
  const { cause } = error;
  // Every address of a host name failed. The first failure is enough to report.
  if (error instanceof AggregateError && error.errors.length > 0) return describeError(error.errors[0]);
  if (error.message === "fetch failed" && cause instanceof Error) return describeError(cause);
  return error.message;
}
