import { text as readAll } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { CliError, EXIT } from "../cli-error.ts";
import { gatewayCommand } from "./command-options.ts";
import type { Policy, TurnOptions } from "./turn-runner.ts";

export function runCommand(): Command {
  return gatewayCommand("run", "One turn: send a prompt, stream the answer to stdout")
    .argument("[prompt...]", "what to say; without it, or with `-`, stdin")
    .option("--session <id>", "continue this session: its id, the beginning of it, or `last`")
    .addOption(
      new Option(
        "--permissions <how>",
        "who answers the agent's questions; `wait` leaves it to others",
      ).choices(["ask", "allow", "deny", "wait"] satisfies Policy[]),
    )
    .option("-q, --quiet", "only the agent's words, no tool calls")
    .addHelpText(
      "after",
      "\nOn a terminal permissions are asked for there; otherwise they wait until somebody answers elsewhere.\n" +
        "Ctrl-C cancels the turn; a second one leaves at once.",
    )
    .action(async (words: string[], options: TurnOptions) => {
      const { TurnRunner } = await import("./turn-runner.ts");
      process.exitCode = await new TurnRunner(options).run(await promptText(words));
    });
}

async function promptText(words: readonly string[]): Promise<string> {
  const given = words.join(" ");
  const fromStdin = given === "-" || (given === "" && !process.stdin.isTTY);
  const text = fromStdin ? await readAll(process.stdin) : given;
  if (text.trim() === "") throw new CliError('there is no prompt: acp-edge run "…"', EXIT.usage);
  return text;
}
