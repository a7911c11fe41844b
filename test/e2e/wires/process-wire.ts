/** Messages as lines on the pipes of a process: an agent, or the bridge. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import type { Wire, WireEvents } from "./wire.ts";

export type Command = { command: readonly string[]; cwd?: string; env?: NodeJS.ProcessEnv };

const NEWLINE = 10;
/** A process that has not ended by then does not notice the end of its input. */
const ENDING_MS = 10_000;

export function processWire({ command, cwd, env }: Command, { onMessage }: WireEvents): Wire {
  const [program, ...args] = command;
  // A group of its own, so that the helpers of an agent end with it.
  const child = spawn(program as string, args, {
    cwd,
    env: env ?? process.env,
    stdio: "pipe",
    detached: true,
  });
  const closed = once(child, "close");
  let diagnostics = 0;
  let rest = Buffer.alloc(0);
  child.stdin.on("error", () => {});
  child.stderr.on("data", (chunk: Buffer) => {
    diagnostics += chunk.length;
  });
  child.stdout.on("data", (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      onMessage(rest.subarray(0, end));
      rest = rest.subarray(end + 1);
    }
  });
  const endGroup = () => {
    try {
      process.kill(-(child.pid as number), "SIGKILL");
    } catch {
      // The whole group is gone.
    }
  };
  return {
    isOrdered: true,
    diagnostics: () => diagnostics,
    send: (text) => void child.stdin.write(`${text}\n`),
    async end() {
      child.stdin.end();
      const timer = setTimeout(endGroup, ENDING_MS);
      const [code, signal] = await closed;
      clearTimeout(timer);
      endGroup();
      return `${signal ?? code}`;
    },
  };
}
