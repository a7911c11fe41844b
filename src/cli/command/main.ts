#!/usr/bin/env node
import * as nodeModule from "node:module";
import { CommanderError } from "commander";
import { CliError, describeError, EXIT } from "../cli-error.ts";

/** The `acp-edge` command: runs one of its commands, and turns what went wrong into a sentence and a code. */

// Whoever reads our output may have seen enough.
process.stdout.on("error", () => process.exit(EXIT.ok));
process.stderr.on("error", () => {});

// Loaded late, so that the cache of compiled code, where Node has one, serves it.
nodeModule.enableCompileCache?.();
const { program } = await import("./program.ts");

try {
  await program().parseAsync();
} catch (error) {
  // Commander has said what there was to say.
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  else {
    process.stderr.write(`acp-edge: ${describeError(error)}\n`);
    process.exitCode = error instanceof CliError ? error.code : EXIT.error;
  }
}
