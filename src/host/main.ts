import { overrideLimits } from "../protocol/limits.ts";
import { type Agent, offeredAgents } from "./agent.ts";
import { Host } from "./host.ts";
import { thisMachine } from "./install.ts";
import { logToStderr, reasonOf } from "./log.ts";
import { type CommandLine, readCommandLine, USAGE } from "./options.ts";
import { TIMING } from "./timing.ts";

let options: CommandLine;
let agents: Agent[];
try {
  overrideLimits(process.env.ACP_EDGE_LIMITS);
  options = readCommandLine(process.argv.slice(2), process.env);
  agents = offeredAgents(options, thisMachine(process.env, options.npx));
} catch (error) {
  process.stderr.write(`${reasonOf(error)}\n\n${USAGE}\n`);
  process.exit(2);
}

const host = new Host({
  gateway: { url: options.gateway, token: options.token, timing: TIMING, log: logToStderr },
  workspace: options.workspace,
  name: options.name,
  root: options.root,
  agents,
  passEnv: options.passEnv,
  onRefused: (reason) => {
    logToStderr(`refused by the gateway: ${reason}`);
    void shutDown(1);
  },
});

let closing = false;

async function shutDown(code: number): Promise<void> {
  if (closing) return;
  closing = true;
  await host.close();
  process.exit(code);
}

process.on("SIGTERM", () => void shutDown(0));
process.on("SIGINT", () => void shutDown(0));

// Whoever started us may be killed without a word; the end of the pipe still tells.
if (process.env.ACP_EDGE_PARENT_PIPE === "1") {
  process.stdin.on("close", () => void shutDown(0)).resume();
}
