import { overrideLimits } from "../protocol/limits.ts";
import { offeredAgents } from "./agent.ts";
import { Host } from "./host.ts";
import { logToStderr, reasonOf } from "./log.ts";
import { type CommandLine, readCommandLine, USAGE } from "./options.ts";
import { TIMING } from "./timing.ts";

let options: CommandLine;
try {
  overrideLimits(process.env.ACP_EDGE_LIMITS);
  if (process.argv.slice(2).some((word) => word === "--help" || word === "-h")) {
    process.stdout.write(`${USAGE}\n`);
    process.exit(0);
  }
  options = readCommandLine(process.argv.slice(2), process.env);
} catch (error) {
  process.stderr.write(`${reasonOf(error)}\n\n${USAGE}\n`);
  process.exit(2);
}

const host = new Host({
  gateway: { url: options.gateway, token: options.token, timing: TIMING, log: logToStderr },
  workspace: options.workspace,
  name: options.name,
  root: options.root,
  agents: offeredAgents(options.agent),
  onRefused: (reason) => {
    logToStderr(`refused by the gateway: ${reason}`);
    void shutDown(3);
  },
});

logToStderr(`connecting to ${options.gateway} for workspace ${options.workspace}, root ${options.root}`);

let closing = false;

async function shutDown(code: number): Promise<void> {
  if (closing) return;
  closing = true;
  logToStderr("ending: agents are stopped first");
  await host.close();
  process.exit(code);
}

process.on("SIGTERM", () => void shutDown(0));
process.on("SIGINT", () => void shutDown(0));

// Whoever started us may be killed without a word; the end of the pipe still tells.
if (process.env.ACP_EDGE_PARENT_PIPE === "1") {
  process.stdin.on("close", () => void shutDown(0)).resume();
}
