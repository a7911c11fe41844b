import { Command } from "commander";
import { handOverToken } from "../../node/token-handover.ts";

/**
 * The host is a program with options of its own, so commander passes them on unread. The program takes over the
 * process and finds its arguments in `process.argv`.
 */
export function hostCommand(): Command {
  return new Command("host")
    .description("Run agents on this machine for the sessions of a workspace")
    .argument("[options...]")
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (words: string[]) => {
      // Before the arguments are replaced: a handover runs the whole command again.
      handOverToken(process.argv, process.env);
      process.argv.splice(2, Number.POSITIVE_INFINITY, ...words);
      await import("../../host/main.ts");
    });
}
