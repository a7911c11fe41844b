import type { LoginProviders } from "../../protocol/login.ts";
import { CliError, EXIT } from "../cli-error.ts";
import type { Login } from "../gateway/login-file.ts";
import { fetchLoginProviders } from "../gateway/login-providers.ts";
import type { Confirmation, Provider } from "../gateway/openid.ts";
import { printNote } from "./output.ts";

type Choice = { device?: boolean; provider?: string };

/** The provider at which to log in. Undefined: the gateway has none, and nobody asked for one. */
export async function chooseProvider(
  url: string,
  { device, provider: name }: Choice,
): Promise<Provider | undefined> {
  const providers = (await fetchLoginProviders(url)).filter(hasCommandClient);
  const found = name === undefined ? providers : providers.filter((one) => one.name === name);
  if (found.length === 1) return found[0];
  const names = providers.map((one) => one.name).join(", ");
  if (found.length > 1) throw new CliError(`choose a provider with --provider: ${names}`, EXIT.usage);
  if (name !== undefined)
    throw new CliError(`there is no provider ${name}${names && `, only ${names}`}`, EXIT.notFound);
  if (device) throw new CliError("this gateway has no login for the command: use --with-token", EXIT.usage);
  return undefined;
}

/** Waits until a person has confirmed the login on any device. Ctrl-C gives up. */
export async function logInAt(provider: Provider): Promise<Login> {
  const { logInByDevice } = await import("../gateway/openid.ts");
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort();
  process.once("SIGINT", interrupt);
  try {
    return await logInByDevice(provider, showConfirmation, interrupted.signal);
  } catch (error) {
    if (interrupted.signal.aborted) throw new CliError("nothing was stored", EXIT.interrupted);
    throw error;
  } finally {
    process.removeListener("SIGINT", interrupt);
  }
}

function hasCommandClient(provider: LoginProviders["providers"][number]): provider is Provider {
  return provider.commandClientId !== null;
}

/** The code is there to be compared, or to be typed on another device. */
function showConfirmation({ url, code }: Confirmation): void {
  printNote(`Open ${url}\nand confirm the code ${code}`);
}
