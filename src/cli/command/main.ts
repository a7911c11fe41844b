#!/usr/bin/env node
import { CommanderError } from "commander";
import { CliError, EXIT, reasonOf } from "../exit.ts";
import { program } from "./program.ts";

/** The `acp-edge` command: runs one of its commands, and turns what went wrong into a sentence and a code. */

// Whoever reads our output may have seen enough.
process.stdout.on("error", () => process.exit(EXIT.ok));
process.stderr.on("error", () => {});

try {
  await program().parseAsync();
} catch (error) {
  // Commander has said what there was to say.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  else {
    process.stderr.write(`acp-edge: ${reasonOf(error)}\n`);
    process.exitCode = error instanceof CliError ? error.code : EXIT.error;
  }
}
