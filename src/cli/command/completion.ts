import { Argument, Command } from "commander";
import { HOST_USAGE } from "../../host/options.ts";
import { bashScript, branches, fishScript, zshScript } from "./completion-script.ts";

const SHELLS = { bash: bashScript, zsh: zshScript, fish: fishScript };

export function completionCommand(): Command {
  const command = new Command("completion")
    .description("Print a completion script for a shell")
    .addArgument(new Argument("<shell>").choices(Object.keys(SHELLS)))
    .addHelpText("after", '\nExample for ~/.bashrc: eval "$(acp-edge completion bash)"')
    .action((shell: keyof typeof SHELLS) => {
      const root = command.parent as Command;
      process.stdout.write(`${SHELLS[shell](branches(root, "", { host: HOST_USAGE }))}\n`);
    });
  return command;
}
