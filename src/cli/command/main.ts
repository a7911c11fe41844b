#!/usr/bin/env node
import * as nodeModule from "node:module";
import { CommanderError } from "commander";
import { CliError, describeError, EXIT } from "../cli-error.ts";

/** The `acp-edge` command: runs a subcommand, and turns a failure into a message and an exit code. */

// The reader of a pipe may close it early, for example `head`.
process.stdout.on("error", () => process.exit(EXIT.ok));
process.stderr.on("error", () => {});

// Imported after the compile cache is enabled, so that the cache serves the import. Older versions of Node have none.
nodeModule.enableCompileCache?.();
const { program } = await import("./program.ts");

try {
  await program().parseAsync();
} catch (error) {
  // Commander has already printed its message.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  else {
    process.stderr.write(`acp-edge: ${describeError(error)}\n`);
    process.exitCode = error instanceof CliError ? error.code : EXIT.error;
  }
}
