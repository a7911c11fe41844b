import { Argument, type Command } from "commander";
import { ENVIRONMENT, INSECURE_VARIABLE, resolveTarget, type TargetOptions } from "../gateway/target.ts";
import { type GatewayOptions, gatewayCommand } from "./command-options.ts";
import { EDITORS, type EditorLaunch, type EditorName } from "./editor-settings.ts";
import { print, printNote, stderr } from "./output.ts";

type EditorOptions = GatewayOptions & { name: string };

export function editorCommand(): Command {
  return gatewayCommand("editor", "Print the settings that add the agent to an editor")
    .addArgument(new Argument("<editor>").choices(Object.keys(EDITORS)))
    .option("--name <name>", "name of the agent in the editor", "acp-edge")
    .action((editor: EditorName, options: EditorOptions) => {
      const { file, snippet, language } = EDITORS[editor];
      const text = snippet(options.name, launchOf(options));
      if (!options.json) printNote(stderr.colours.dim(file));
      const parsed = language === "json" ? { settings: JSON.parse(text) as unknown } : {};
      print(options, { editor, file, language, snippet: text, ...parsed }, () => text);
    });
}

/**
 * The editor starts the command as it was started here. Settings of the configuration file are found there again;
 * options become arguments, and a token becomes an environment variable, which other users cannot see.
 */
function launchOf(options: GatewayOptions): EditorLaunch {
  const target = resolveTarget(options, process.env);
  const given = { ...fromEnvironment(), ...definedIn(options) };
  const args = [process.argv[1] as string, "connect"];
  if (given.profile) args.push("--profile", given.profile);
  if (given.url) args.push("--url", target.url);
  if (given.workspace) args.push("--workspace", given.workspace);
  if (given.agent) args.push("--agent", given.agent);
  if (given.insecure || process.env[INSECURE_VARIABLE]) args.push("--insecure");
  if (given.tokenFile) args.push("--token-file", given.tokenFile);
  if (given.tokenCommand) args.push("--token-command", given.tokenCommand);
  return { command: process.execPath, args, env: given.token ? { [ENVIRONMENT.token]: given.token } : {} };
}

function fromEnvironment(): TargetOptions {
  return Object.fromEntries(
    Object.entries(ENVIRONMENT).flatMap(([key, variable]) => {
      const value = process.env[variable];
      return value ? [[key, value]] : [];
    }),
  );
}

function definedIn(options: TargetOptions): TargetOptions {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
