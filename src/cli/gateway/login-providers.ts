import { LOGIN_PROVIDERS, type LoginProviders } from "../../protocol/login.ts";
import { CliError, describeError, EXIT } from "../cli-error.ts";

const TIMEOUT_MS = 15_000;

/** The OpenID providers of a gateway. A gateway of an earlier version has none. */
export async function fetchLoginProviders(gateway: string): Promise<LoginProviders["providers"]> {
  let response: Response;
  try {
    response = await fetch(`${gateway}/api/login`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch (error) {
    throw new CliError(`${gateway} does not answer: ${describeError(error)}`, EXIT.unreachable);
  }
  const body: unknown = response.ok ? await response.json().catch(() => undefined) : undefined;
  return LOGIN_PROVIDERS.safeParse(body).data?.providers ?? [];
}
