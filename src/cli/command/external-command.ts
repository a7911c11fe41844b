import { Command } from "commander";

/**
 * Commands that are programs of their own, with their own options: they take over the process, and find their
 * words where a program does.
 */
function mounted(name: string, summary: string, program: () => Promise<unknown>): Command {
  return new Command(name)
    .description(summary)
    .argument("[options...]")
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (words: string[]) => {
      process.argv.splice(2, Number.POSITIVE_INFINITY, ...words);
      await program();
    });
}

export function hostCommand(): Command {
  return mounted(
    "host",
    "Run agents here for the sessions of a workspace",
    () => import("../../host/main.ts"),
  );
}
