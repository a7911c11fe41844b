import { logToStderr, reasonOf } from "../node/log.ts";
import { readTiming, type Timing } from "../node/timing.ts";
import { type Limits, readLimits } from "../protocol/limits.ts";
import { thisMachine } from "./agent/installation.ts";
import { type OfferedAgent, offeredAgents } from "./agent/offered-agents.ts";
import { Host } from "./host.ts";
import type { HostRefusal } from "./link/control-link.ts";
import { HOST_USAGE, type HostCommandLine, readCommandLine } from "./options.ts";
import { ProcessGroupRecords } from "./os/process-group-records.ts";

/** The exit codes are documented in the usage text: a supervisor decides by them whether to restart the host. */
const EXIT: Readonly<Record<HostRefusal | "ended" | "usage", number>> = {
  ended: 0,
  usage: 2,
  token: 3,
  version: 7,
  superseded: 8,
};

let options: HostCommandLine;
let timing: Timing;
let limits: Limits;
let agents: OfferedAgent[];
try {
  limits = readLimits(process.env.ACP_EDGE_LIMITS);
  timing = readTiming(process.env.ACP_EDGE_TIMING);
  if (process.argv.slice(2).some((word) => word === "--help" || word === "-h")) {
    process.stdout.write(`${HOST_USAGE}\n`);
    process.exit(0);
  }
  options = readCommandLine(process.argv.slice(2), process.env);
  agents = offeredAgents(options, thisMachine(process.env, options.npx));
} catch (error) {
  process.stderr.write(`${reasonOf(error)}\n\n${HOST_USAGE}\n`);
  process.exit(EXIT.usage);
}

const { workspace, name, root } = options;
const identity = { workspace, name, root };
const records = await ProcessGroupRecords.open(options.state, identity, timing.killAfterMs, logToStderr);

const host = new Host({
  gateway: { url: options.gateway, token: options.token, timing, limits, log: logToStderr },
  workspace: options.workspace,
  name: options.name,
  root: options.root,
  agents,
  passEnv: options.passEnv,
  capacity: options.capacity,
  maxAgents: options.maxAgents,
  agentLimits: options.agentLimits,
  records,
  onRefused: (reason, why) => {
    logToStderr(`refused by the gateway: ${reason}`);
    void shutDown(EXIT[why]);
  },
});

logToStderr(`connecting to ${options.gateway} for workspace ${options.workspace}, root ${options.root}`);

let closing = false;

async function shutDown(code: number): Promise<void> {
  if (closing) return;
  closing = true;
  logToStderr("shutting down: stopping all agents");
  await host.close();
  records?.close();
  process.exit(code);
}

/** The first signal lets running turns finish; a second signal ends them. */
let draining = false;

async function onSignal(): Promise<void> {
  if (!draining && options.drainMs > 0) {
    draining = true;
    logToStderr(
      `draining for at most ${options.drainMs / 1000} s; a second signal ends all turns immediately`,
    );
    await host.drain(options.drainMs);
  }
  await shutDown(EXIT.ended);
}

process.on("SIGTERM", () => void onSignal());
process.on("SIGINT", () => void onSignal());

// A parent process that is killed cannot send a signal, but it closes its end of the pipe.
if (process.env.ACP_EDGE_PARENT_PIPE === "1") {
  process.stdin.on("close", () => void shutDown(EXIT.ended)).resume();
}
