/**
 * Runs an agent and writes down what it reads and writes: `node agent-tap.ts DIRECTORY COMMAND [ARGS …]`. The gateway
 * runs the tap as its agent, so the record has what the gateway really sends.
 */
import { spawn } from "node:child_process";
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Exchanged } from "./frame-audit.ts";

const TAP = fileURLToPath(import.meta.url);

/** The command of an agent with its tap. */
export function tapped(directory: string, command: readonly string[]): string[] {
  return ["node", TAP, directory, ...command];
}

/** The messages that all tapped agents of a directory have read and written, process by process. */
export function readTaps(directory: string): Exchanged[][] {
  return readdirSync(directory).map((name) =>
    readFileSync(join(directory, name), "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Exchanged),
  );
}

function run([directory, program, ...args]: string[]): void {
  const child = spawn(program as string, args, { stdio: ["pipe", "pipe", "inherit"] });
  const file = join(directory as string, `${process.pid}.ndjson`);
  const record = (by: string) => {
    let rest = Buffer.alloc(0);
    return (chunk: Buffer) => {
      const lines = Buffer.concat([rest, chunk]).toString("latin1").split("\n");
      rest = Buffer.from(lines.pop() as string, "latin1");
      const texts = lines.map((line) => Buffer.from(line, "latin1").toString()).filter(Boolean);
      appendFileSync(file, texts.map((text) => `${JSON.stringify({ by, text })}\n`).join(""));
    };
  };
  const [recordIn, recordOut] = [record("gateway"), record("agent")];
  process.stdin.on("data", (chunk: Buffer) => {
    recordIn(chunk);
    child.stdin.write(chunk);
  });
  process.stdin.on("end", () => child.stdin.end());
  child.stdin.on("error", () => {});
  child.stdout.on("data", (chunk: Buffer) => {
    recordOut(chunk);
    process.stdout.write(chunk);
  });
  child.on("exit", (code) => process.exit(code ?? 1));
}

if (process.argv[1] === TAP) run(process.argv.slice(2));
