import { text as readAll } from "node:stream/consumers";
import type { Command } from "commander";
import { insecureUrlMessage, isSecureUrl } from "../../protocol/secure-url.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { ApiClient } from "../gateway/api-client.ts";
import { type Profile, readConfig } from "../gateway/config-file.ts";
import { type Login, loginPath, writeLogin } from "../gateway/login-file.ts";
import { ENVIRONMENT, gatewayUrl, INSECURE_VARIABLE, resolveTarget, type Target } from "../gateway/target.ts";
import { claimsOf } from "../gateway/token-source.ts";
import { describeExpiry } from "../gateway/token-trouble.ts";
import { insecureOption, outputCommand } from "./command-options.ts";
import { chooseProvider, logInAt } from "./device-login.ts";
import { print, printNote } from "./output.ts";
import { addProfileOption, type ProfileOptions, profileNameIn, saveProfile } from "./profile-option.ts";

type LoginOptions = ProfileOptions & {
  url?: string;
  workspace?: string;
  insecure?: boolean;
  device?: boolean;
  withToken?: boolean;
  provider?: string;
  check: boolean;
};

/** A token, and the login that renews it. */
type Obtained = { token: string; login?: Login };

export function loginCommand(): Command {
  return addProfileOption(
    outputCommand("login", "Log in at the gateway's OpenID provider, or store a token, in a profile"),
  )
    .option("--url <url>", "address of the gateway, stored with the token")
    .option("--workspace <id>", "workspace, stored with the token")
    .option("--device", "log in at the gateway's OpenID provider, on any device (default on a terminal)")
    .option("--provider <name>", "the provider, if the gateway has several")
    .option("--with-token", "store a token from the prompt or from stdin (default without a provider)")
    .addOption(insecureOption())
    .option("--no-check", "store the token without asking the gateway whether it accepts it")
    .action(async (options: LoginOptions) => {
      const config = readConfig(process.env);
      const name = profileNameIn(config, options);
      const {
        token: _,
        tokenCommand: __,
        tokenFile: ___,
        loginFile: ____,
        ...rest
      } = config.profiles[name] ?? {};
      const url = options.url ?? rest.url ?? process.env.ACP_EDGE_URL;
      if (!url) throw new CliError("the gateway is missing: use --url", EXIT.usage);
      const insecure =
        options.insecure || rest.insecure === "true" || Boolean(process.env[INSECURE_VARIABLE]);
      if (!insecure && !isSecureUrl(gatewayUrl(url)))
        throw new CliError(insecureUrlMessage(gatewayUrl(url)), EXIT.usage);
      const { token, login } = await obtain(gatewayUrl(url), options);
      const gateway = { ...rest, url: gatewayUrl(url) };
      // The check must use the new token only; the environment may contain another one.
      const target = resolveTarget({ ...gateway, token, insecure }, {}, { profile: name, profiles: {} });
      if (options.check) await check(target, login);
      const profile: Profile = {
        ...gateway,
        ...(options.workspace !== undefined && { workspace: options.workspace }),
        ...(options.insecure && { insecure: "true" }),
        ...(login ? { loginFile: loginPath(name, process.env) } : { token }),
      };
      // Nothing of a login that the gateway refuses stays on the disk.
      if (login) writeLogin(loginPath(name, process.env), login);
      saveProfile(config, name, profile);
      const until = login ? "" : describeExpiry(token);
      const stored = login ? "login" : "token";
      print(
        options,
        { profile: name, url: profile.url },
        () => `${stored} stored in profile ${name}${until}`,
      );
      if (process.env.ACP_EDGE_TOKEN) printNote(`${ENVIRONMENT.token} is set and overrides the stored token`);
    });
}

/** A token that is piped in needs no question. On a terminal the gateway says whether people log in at a provider. */
async function obtain(url: string, options: LoginOptions): Promise<Obtained> {
  const wantsToken = options.withToken || !(options.device || options.provider || process.stdin.isTTY);
  const provider = wantsToken ? undefined : await chooseProvider(url, options);
  if (!provider) return { token: await readToken() };
  const login = await logInAt(provider);
  return { token: login.token, login };
}

/** The gateway does not say why it refuses a token; after a login only one reason is likely. */
async function check(target: Target, login: Login | undefined): Promise<void> {
  try {
    await new ApiClient(target).sessions(1);
  } catch (error) {
    if (!login || !(error instanceof CliError) || error.code !== EXIT.unauthorized) throw error;
    const account = claimsOf(login.token)?.email ?? claimsOf(login.token)?.sub ?? "your account";
    throw new CliError(
      `${login.issuer} confirmed the login, but the gateway gives ${account} no rights: its operator decides that by grants`,
      EXIT.unauthorized,
    );
  }
}

async function readToken(): Promise<string> {
  const token = (process.stdin.isTTY ? await askToken() : await readAll(process.stdin)).trim();
  if (token === "" || /\s/.test(token)) throw new CliError("a token is a single word", EXIT.usage);
  return token;
}

async function askToken(): Promise<string> {
  const { isCancel, password } = await import("@clack/prompts");
  const answer = await password({ message: "Token", output: process.stderr });
  if (isCancel(answer)) throw new CliError("nothing was stored", EXIT.interrupted);
  return answer;
}
