/**
 * The built-in demo agent: an ACP v1 agent over stdio that needs no model and no key.
 *
 * The text of the prompt scripts the turn (`/help` lists the commands). The agent can thus produce every kind of
 * update, request and failure of a real agent, deterministically. It is the agent of the quick start, the load
 * generator of the benchmarks, and the peer in the gateway's tests.
 *
 * Environment:
 * - `DEMO_AGENT_STATE`      directory for sessions; without it they live in memory and cannot be loaded
 * - `DEMO_AGENT_MISBEHAVE`  comma-separated bad habits, see habits.ts
 */
import { writeSync } from "node:fs";
import * as nodeModule from "node:module";
import { parseHabits, STARTUP_NOISE } from "./habits.ts";
import { Output } from "./output.ts";

/** How long a reader that does not read may delay the exit. */
const EXIT_FLUSH_MS = 500;

const habits = parseHabits(process.env.DEMO_AGENT_MISBEHAVE);

if (habits.has("exit")) {
  writeSync(2, "demo agent: refusing to start, as asked by DEMO_AGENT_MISBEHAVE=exit\n");
  process.exit(3);
}

const out = new Output(process.stdout);
const stop = async () => {
  setTimeout(() => process.exit(0), EXIT_FLUSH_MS).unref();
  await out.flushed();
  process.exit(0);
};

// Without a reader there is nothing left to do.
process.stdout.on("error", () => process.exit(0));

if (habits.has("stubborn")) {
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1 << 30);
} else {
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  process.stdin.once("close", stop);
}

if (habits.has("silent")) {
  process.stdin.resume();
} else {
  if (habits.has("garbage")) out.write(STARTUP_NOISE);
  // Imported after the compile cache is enabled, because loading the SDK takes most of the start-up time.
  nodeModule.enableCompileCache?.();
  const { serve } = await import("./demo-agent.ts");
  serve(process.stdin, out, { habits, stateDirectory: process.env.DEMO_AGENT_STATE });
}
