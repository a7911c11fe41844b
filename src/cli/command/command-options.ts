import { Command, Option } from "commander";
import { CliError, EXIT } from "../cli-error.ts";
import { ENVIRONMENT, INSECURE_VARIABLE, type TargetOptions } from "../gateway/target.ts";
import type { OutputOptions } from "./output.ts";

/** The options that several commands share. */

export type GatewayOptions = TargetOptions & OutputOptions;

/** A command that prints a result. */
export function outputCommand(name: string, summary: string): Command {
  return new Command(name).description(summary).option("--json", "print only JSON on stdout");
}

/** A command that prints a result and talks to a gateway. */
export function gatewayCommand(name: string, summary: string): Command {
  return addGatewayOptions(outputCommand(name, summary));
}

/** Adds the options that choose and authenticate to a gateway, as a separate group of `--help`. */
export function addGatewayOptions(command: Command): Command {
  const options: [string, string, string][] = [
    ["--profile <name>", "profile of the configuration file", ENVIRONMENT.profile],
    ["--url <url>", "address of the gateway", ENVIRONMENT.url],
    ["--workspace <id>", "workspace", ENVIRONMENT.workspace],
    ["--agent <id>", "agent", ENVIRONMENT.agent],
    ["--token <token>", "token; visible to other users of this machine", ENVIRONMENT.token],
    ["--token-file <path>", "file with the token", ENVIRONMENT.tokenFile],
    ["--token-command <command>", "command that prints the token", ENVIRONMENT.tokenCommand],
  ];
  for (const [flags, text, variable] of options)
    command.addOption(new Option(flags, `${text} (${variable})`).helpGroup("Gateway:"));
  return command.addOption(insecureOption().helpGroup("Gateway:"));
}

export function insecureOption(): Option {
  const text = "allow http to another machine: others on the way can read the token";
  return new Option("--insecure", `${text} (${INSECURE_VARIABLE}=1)`);
}

/** Reads an option's value that is a whole number. */
export function parseWholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new CliError(`${text} is not a whole number`, EXIT.usage);
  return Number(text);
}

/** Reads an option's value that is a number of seconds. */
export function parseSeconds(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0))
    throw new CliError(`${text} is not a number of seconds`, EXIT.usage);
  return value;
}
