import { Command } from "commander";
import { CliError, EXIT } from "../cli-error.ts";
import { configPath, PROFILE_KEYS, type Profile, readConfig, writeConfig } from "../gateway/config-file.ts";
import { gatewayUrl } from "../gateway/target.ts";
import { outputCommand } from "./command-options.ts";
import { type OutputOptions, print } from "./output.ts";
import {
  addProfileOption,
  type ProfileOptions,
  profileIn,
  profileNameIn,
  saveProfile,
} from "./profile-option.ts";

export function configCommand(): Command {
  return new Command("config")
    .description("Show and change the profiles of the configuration file")
    .addCommand(path())
    .addCommand(get())
    .addCommand(set())
    .addCommand(use());
}

function path(): Command {
  return outputCommand("path", "Print the path of the configuration file").action(
    (options: OutputOptions) => {
      const file = configPath(process.env);
      print(options, { path: file }, () => file);
    },
  );
}

function get(): Command {
  return addProfileOption(outputCommand("get", "Show a profile or one of its values"))
    .argument("[key]", PROFILE_KEYS.join(", "))
    .action((key: string | undefined, options: ProfileOptions) => {
      const config = readConfig(process.env);
      const name = profileNameIn(config, options);
      const profile = profileIn(config, name);
      if (key !== undefined) {
        const value = profile[keyOf(key)];
        if (value === undefined) throw new CliError(`${key} is not set in profile ${name}`, EXIT.notFound);
        return print(options, { profile: name, [key]: value }, () => value);
      }
      // A token must not appear on a screen that others can see.
      const shown = { ...profile, ...(profile.token !== undefined && { token: "(set)" }) };
      const others = Object.keys(config.profiles).filter((other) => other !== name);
      print(options, { profile: name, ...shown, others }, () =>
        [
          `profile ${name}${name === config.profile ? ", in use" : ""}`,
          ...Object.entries(shown).map(([setting, value]) => `  ${setting.padEnd(13)} ${value}`),
          ...(others.length > 0 ? [`other profiles: ${others.join(", ")}`] : []),
        ].join("\n"),
      );
    });
}

function set(): Command {
  return addProfileOption(outputCommand("set", "Set or remove a value of a profile"))
    .argument("<key>", PROFILE_KEYS.join(", "))
    .argument("[value]", "the new value; if it is missing, the value is removed")
    .action((key: string, value: string | undefined, options: ProfileOptions) => {
      const config = readConfig(process.env);
      const name = profileNameIn(config, options);
      const { [keyOf(key)]: _, ...rest } = config.profiles[name] ?? {};
      const checked = key === "url" && value !== undefined ? gatewayUrl(value) : value;
      if (key === "insecure" && value !== undefined && value !== "true")
        throw new CliError("insecure can only be true; without a value it is removed", EXIT.usage);
      const profile = { ...rest, ...(checked !== undefined && { [key]: checked }) };
      saveProfile(config, name, profile);
      print(options, { profile: name, [key]: checked ?? null }, () => "");
    });
}

function use(): Command {
  return outputCommand("use", "Choose the profile to use from now on")
    .argument("<profile>", "name of the profile")
    .action((name: string, options: OutputOptions) => {
      const config = readConfig(process.env);
      profileIn(config, name);
      writeConfig({ ...config, profile: name }, process.env);
      print(options, { profile: name }, () => "");
    });
}

function keyOf(text: string): keyof Profile {
  const key = PROFILE_KEYS.find((known) => known === text);
  if (!key) throw new CliError(`there is no setting ${text}: only ${PROFILE_KEYS.join(", ")}`, EXIT.usage);
  return key;
}
