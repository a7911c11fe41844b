import { CliError, EXIT, type ExitCode } from "../cli-error.ts";

/** The error for a request that the gateway refused: its own words, or the HTTP status. */
export function refusalError(status: number, body: string): CliError {
  return new CliError(`the gateway ${messageIn(body) ?? `answered HTTP ${status}`}`, exitCodeFor(status));
}

function messageIn(body: string): string | undefined {
  try {
    return `says: ${(JSON.parse(body) as { error: { message: string } }).error.message}`;
  } catch {
    return undefined;
  }
}

function exitCodeFor(status: number): ExitCode {
  if (status === 401 || status === 403) return EXIT.unauthorized;
  if (status === 404 || status === 410) return EXIT.notFound;
  return status === 502 || status === 503 || status === 504 ? EXIT.unreachable : EXIT.error;
}
