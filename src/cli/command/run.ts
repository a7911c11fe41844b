import { text as readAll } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { CliError, EXIT } from "../cli-error.ts";
import { gatewayCommand } from "./command-options.ts";
import type { Policy, TurnOptions } from "./turn-runner.ts";

export function runCommand(): Command {
  return gatewayCommand("run", "Run one turn: send a prompt and stream the answer to stdout")
    .argument("[prompt...]", "the prompt; read from stdin if it is missing or `-`")
    .option("--session <id>", "continue this session: session id, the beginning of one, or `last`")
    .addOption(
      new Option(
        "--permissions <how>",
        "how permission requests are answered; `wait` leaves them to other clients",
      ).choices(["ask", "allow", "deny", "wait"] satisfies Policy[]),
    )
    .option("-q, --quiet", "print only the agent's messages, no tool calls")
    .addHelpText(
      "after",
      "\nBy default, permission requests and questions are asked on the terminal; without a terminal they wait for another\n" +
        "client. Without a terminal and with --permissions allow or deny, questions are declined.\n" +
        "Ctrl-C cancels the turn; a second Ctrl-C exits immediately.",
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
  if (text.trim() === "") throw new CliError('the prompt is missing: acp-edge run "…"', EXIT.usage);
  return text;
}
