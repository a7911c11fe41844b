import { text as readAll } from "node:stream/consumers";
import { Command, Option } from "commander";
import { CliError, EXIT } from "../cli-error.ts";
import { ApiClient } from "../gateway/api-client.ts";
import {
  type Config,
  configPath,
  PROFILE_KEYS,
  type Profile,
  readConfig,
  writeConfig,
} from "../gateway/config-file.ts";
import { ENVIRONMENT, gatewayUrl, resolveTarget } from "../gateway/target.ts";
import { describeExpiry } from "../gateway/token-trouble.ts";
import { outputCommand } from "./command-options.ts";
import { type OutputOptions, print, printNote } from "./output.ts";

/** The configuration file: profiles, and which one is in use. */

type ProfileOptions = OutputOptions & { profile?: string };

export function configCommand(): Command {
  return new Command("config")
    .description("The configuration file: profiles of gateways")
    .addCommand(path())
    .addCommand(get())
    .addCommand(set())
    .addCommand(use());
}

function path(): Command {
  return outputCommand("path", "Where the file is").action((options: OutputOptions) => {
    const file = configPath(process.env);
    print(options, { path: file }, () => file);
  });
}

function get(): Command {
  return withProfile(outputCommand("get", "Show a profile, or one value of it"))
    .argument("[key]", PROFILE_KEYS.join(", "))
    .action((key: string | undefined, options: ProfileOptions) => {
      const config = readConfig(process.env);
      const name = nameIn(config, options);
      const profile = profileIn(config, name);
      if (key !== undefined) {
        const value = profile[keyOf(key)];
        if (value === undefined) throw new CliError(`${key} is not set in profile ${name}`, EXIT.notFound);
        return print(options, { profile: name, [key]: value }, () => value);
      }
      // A token is for the gateway, not for whoever looks over one's shoulder.
      const shown = { ...profile, ...(profile.token !== undefined && { token: "(set)" }) };
      const others = Object.keys(config.profiles).filter((one) => one !== name);
      print(options, { profile: name, ...shown, others }, () =>
        [
          `profile ${name}${name === config.profile ? ", in use" : ""}`,
          ...Object.entries(shown).map(([setting, value]) => `  ${setting.padEnd(13)} ${value}`),
          ...(others.length > 0 ? [`others: ${others.join(", ")}`] : []),
        ].join("\n"),
      );
    });
}

function set(): Command {
  return withProfile(outputCommand("set", "Set a value of a profile; without one, remove it"))
    .argument("<key>", PROFILE_KEYS.join(", "))
    .argument("[value]")
    .action((key: string, value: string | undefined, options: ProfileOptions) => {
      const config = readConfig(process.env);
      const name = nameIn(config, options);
      const { [keyOf(key)]: _, ...rest } = config.profiles[name] ?? {};
      const checked = key === "url" && value !== undefined ? gatewayUrl(value) : value;
      const profile = { ...rest, ...(checked !== undefined && { [key]: checked }) };
      save(config, name, profile);
      print(options, { profile: name, [key]: checked ?? null }, () => "");
    });
}

function use(): Command {
  return outputCommand("use", "Use a profile from now on")
    .argument("<profile>")
    .action((name: string, options: OutputOptions) => {
      const config = readConfig(process.env);
      profileIn(config, name);
      writeConfig({ ...config, profile: name }, process.env);
      print(options, { profile: name }, () => "");
    });
}

type LoginOptions = ProfileOptions & { url?: string; workspace?: string; check: boolean };

export function loginCommand(): Command {
  return withProfile(outputCommand("login", "Store a token for a profile, from the prompt or stdin"))
    .option("--url <url>", "address of the gateway, stored as well")
    .option("--workspace <id>", "workspace, stored as well")
    .option("--no-check", "do not ask the gateway whether it accepts the token")
    .action(async (options: LoginOptions) => {
      const config = readConfig(process.env);
      const name = nameIn(config, options);
      const { tokenCommand: _, tokenFile: __, ...rest } = config.profiles[name] ?? {};
      const url = options.url ?? rest.url ?? process.env.ACP_EDGE_URL;
      if (!url) throw new CliError("say for which gateway: --url", EXIT.usage);
      const profile: Profile = {
        ...rest,
        url: gatewayUrl(url),
        ...(options.workspace !== undefined && { workspace: options.workspace }),
        token: await readToken(),
      };
      // Only what is to be stored counts: the environment may hold another token.
      const target = resolveTarget(profile, {}, { profile: name, profiles: {} });
      if (options.check) await new ApiClient(target).sessions(1);
      save(config, name, profile);
      const until = describeExpiry(profile.token ?? "");
      print(options, { profile: name, url: profile.url }, () => `stored for profile ${name}${until}`);
      if (process.env.ACP_EDGE_TOKEN) printNote(`${ENVIRONMENT.token} is set and overrides it`);
    });
}

async function readToken(): Promise<string> {
  const token = (process.stdin.isTTY ? await askToken() : await readAll(process.stdin)).trim();
  if (token === "" || /\s/.test(token)) throw new CliError("a token is one word", EXIT.usage);
  return token;
}

async function askToken(): Promise<string> {
  const { isCancel, password } = await import("@clack/prompts");
  const answer = await password({ message: "Token", output: process.stderr });
  if (isCancel(answer)) throw new CliError("nothing was stored", EXIT.interrupted);
  return answer;
}

function withProfile(command: Command): Command {
  return command.addOption(
    new Option("--profile <name>", `by default the one in use (${ENVIRONMENT.profile})`),
  );
}

function nameIn(config: Config, { profile }: ProfileOptions): string {
  return profile || process.env.ACP_EDGE_PROFILE || config.profile;
}

function profileIn({ profiles, profile: inUse }: Config, name: string): Profile {
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (!profile && name !== inUse) throw new CliError(`there is no profile ${name}`, EXIT.notFound);
  return profile ?? {};
}

function keyOf(text: string): keyof Profile {
  const key = PROFILE_KEYS.find((known) => known === text);
  if (!key) throw new CliError(`there is no setting ${text}: only ${PROFILE_KEYS.join(", ")}`, EXIT.usage);
  return key;
}

function save(config: Config, name: string, profile: Profile): void {
  writeConfig({ ...config, profiles: { ...config.profiles, [name]: profile } }, process.env);
}
