import { text as readAll } from "node:stream/consumers";
import type { Command } from "commander";
import { CliError, EXIT } from "../cli-error.ts";
import { ApiClient } from "../gateway/api-client.ts";
import { type Profile, readConfig } from "../gateway/config-file.ts";
import { ENVIRONMENT, gatewayUrl, resolveTarget } from "../gateway/target.ts";
import { describeExpiry } from "../gateway/token-trouble.ts";
import { outputCommand } from "./command-options.ts";
import { print, printNote } from "./output.ts";
import { addProfileOption, type ProfileOptions, profileNameIn, saveProfile } from "./profile-option.ts";

type LoginOptions = ProfileOptions & { url?: string; workspace?: string; check: boolean };

export function loginCommand(): Command {
  return addProfileOption(outputCommand("login", "Store a token in a profile, from the prompt or from stdin"))
    .option("--url <url>", "address of the gateway, stored with the token")
    .option("--workspace <id>", "workspace, stored with the token")
    .option("--no-check", "store the token without asking the gateway whether it accepts it")
    .action(async (options: LoginOptions) => {
      const config = readConfig(process.env);
      const name = profileNameIn(config, options);
      const { tokenCommand: _, tokenFile: __, ...rest } = config.profiles[name] ?? {};
      const url = options.url ?? rest.url ?? process.env.ACP_EDGE_URL;
      if (!url) throw new CliError("the gateway is missing: use --url", EXIT.usage);
      const profile: Profile = {
        ...rest,
        url: gatewayUrl(url),
        ...(options.workspace !== undefined && { workspace: options.workspace }),
        token: await readToken(),
      };
      // The check must use the new token only; the environment may contain another one.
      const target = resolveTarget(profile, {}, { profile: name, profiles: {} });
      if (options.check) await new ApiClient(target).sessions(1);
      saveProfile(config, name, profile);
      const until = describeExpiry(profile.token ?? "");
      print(options, { profile: name, url: profile.url }, () => `token stored in profile ${name}${until}`);
      if (process.env.ACP_EDGE_TOKEN) printNote(`${ENVIRONMENT.token} is set and overrides the stored token`);
    });
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
