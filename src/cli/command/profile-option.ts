import { type Command, Option } from "commander";
import { CliError, EXIT } from "../cli-error.ts";
import { type Config, type Profile, writeConfig } from "../gateway/config-file.ts";
import { ENVIRONMENT } from "../gateway/target.ts";
import type { OutputOptions } from "./output.ts";

/** The profile that a command reads or changes. */
export type ProfileOptions = OutputOptions & { profile?: string };

export function addProfileOption(command: Command): Command {
  return command.addOption(
    new Option(
      "--profile <name>",
      `name of the profile (${ENVIRONMENT.profile}; default: the profile in use)`,
    ),
  );
}

export function profileNameIn(config: Config, { profile }: ProfileOptions): string {
  return profile || process.env.ACP_EDGE_PROFILE || config.profile;
}

/** The profile in use need not exist yet; any other name must. */
export function profileIn({ profiles, profile: inUse }: Config, name: string): Profile {
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (!profile && name !== inUse) throw new CliError(`there is no profile ${name}`, EXIT.notFound);
  return profile ?? {};
}

export function saveProfile(config: Config, name: string, profile: Profile): void {
  writeConfig({ ...config, profiles: { ...config.profiles, [name]: profile } }, process.env);
}
