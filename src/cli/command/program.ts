import { Command } from "commander";
import { VERSION } from "../../node/version.ts";
import { EXIT_HELP } from "../cli-error.ts";
import { completionCommand } from "./completion.ts";
import { configCommand } from "./config.ts";
import { connectCommand } from "./connect.ts";
import { doctorCommand } from "./doctor.ts";
import { editorCommand } from "./editor.ts";
import { hostCommand } from "./host.ts";
import { loginCommand } from "./login.ts";
import { permissionsCommand } from "./permissions.ts";
import { questionsCommand } from "./questions.ts";
import { reindexCommand } from "./reindex.ts";
import { revocationsCommand } from "./revocations.ts";
import { runCommand } from "./run.ts";
import { sessionsCommand } from "./sessions.ts";
import { shareCommand } from "./share.ts";
import { tokenCommand } from "./token.ts";
import { webhooksCommand } from "./webhooks.ts";
import { agentsCommand, hostsCommand, workspacesCommand } from "./workspaces.ts";

/** The `acp-edge` command with all its subcommands. */
export function program(): Command {
  const root = new Command("acp-edge")
    .description("Use coding agents that run on other machines as if they ran on this one.")
    .version(VERSION)
    .enablePositionalOptions()
    .addHelpText("after", `\n${EXIT_HELP}`)
    .addCommand(connectCommand())
    .addCommand(hostCommand())
    .addCommand(runCommand())
    .addCommand(sessionsCommand())
    .addCommand(permissionsCommand())
    .addCommand(questionsCommand())
    .addCommand(shareCommand())
    .addCommand(webhooksCommand())
    .addCommand(revocationsCommand())
    .addCommand(reindexCommand())
    .addCommand(workspacesCommand())
    .addCommand(hostsCommand())
    .addCommand(agentsCommand())
    .addCommand(doctorCommand())
    .addCommand(editorCommand())
    .addCommand(loginCommand())
    .addCommand(configCommand())
    .addCommand(tokenCommand())
    .addCommand(completionCommand());
  for (const command of everyCommand(root)) command.exitOverride().showHelpAfterError("(see --help)");
  return root;
}

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}
