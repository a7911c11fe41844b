/**
 * The built-in demo agent: an ACP v1 agent over stdio that needs no model and no key.
 *
 * What it does in a turn is scripted by the text of the prompt (`/help` lists the commands), so it can show
 * every kind of update, request and failure a real agent could produce, always in the same way. It is the
 * agent of the quick start, the load generator of the benchmarks and the opposite side of the gateway's
 * tests.
 *
 * Environment:
 * - `DEMO_AGENT_STATE`      directory for sessions; without it they live in memory and cannot be loaded
 * - `DEMO_AGENT_MISBEHAVE`  comma-separated bad habits, see misbehave.ts
 */
import { writeSync } from "node:fs";
import * as nodeModule from "node:module";
import { parseHabits, STARTUP_NOISE } from "./misbehave.ts";
import { Output } from "./output.ts";

/** How long a reader that has stopped reading may delay our exit. */
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

// The reader went away: there is nobody left to work for.
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
  // Loaded late, so that the cache of compiled code, where Node has one, serves the SDK: most of the start-up time.
  nodeModule.enableCompileCache?.();
  const { serve } = await import("./agent.ts");
  serve(process.stdin, out, { habits, stateDirectory: process.env.DEMO_AGENT_STATE });
}
