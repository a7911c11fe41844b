import { mkdirSync } from "node:fs";
import { configDirectory } from "../node/config-directory.ts";
import { localStates, missingLocalStates, userStateDirectory } from "../node/local-states.ts";
import { logToStderr, reasonOf } from "../node/log.ts";
import { readTiming, type Timing } from "../node/timing.ts";
import { handOverToken } from "../node/token-handover.ts";
import { type Limits, readLimits } from "../protocol/limits.ts";
import { thisMachine } from "./agent/installation.ts";
import { type OfferedAgent, offeredAgents } from "./agent/offered-agents.ts";
import { Host } from "./host.ts";
import { chooseIsolation, describeIsolation, NoIsolation } from "./isolation/choose-isolation.ts";
import { HiddenPathMoved, HiddenPaths } from "./isolation/hidden-paths.ts";
import type { Isolation } from "./isolation/isolation.ts";
import type { HostRefusal } from "./link/control-link.ts";
import { HOST_USAGE, type HostCommandLine, InsecureGateway, readCommandLine } from "./options.ts";
import { closeInheritedDescriptors } from "./os/inherited-descriptors.ts";
import { ProcessGroupRecords } from "./os/process-group-records.ts";

/** The exit codes are documented in the usage text: a supervisor decides by them whether to restart the host. */
const EXIT: Readonly<Record<HostRefusal | "ended" | "usage" | "isolation", number>> = {
  ended: 0,
  usage: 2,
  token: 3,
  version: 7,
  superseded: 8,
  isolation: 9,
};

/** The number of missing states that a warning names. */
const NAMED_STATES = 3;

if (!handOverToken(process.argv, process.env))
  logToStderr(
    "this Node cannot remove the token from the environment of the host: use --token-file or Node 22.15 or newer",
  );

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
  const usage = error instanceof InsecureGateway ? "" : `\n${HOST_USAGE}\n`;
  process.stderr.write(`${reasonOf(error)}\n${usage}`);
  process.exit(EXIT.usage);
}

// The token has been read, and no process of an agent has started.
closeInheritedDescriptors();

const { workspace, name, root } = options;
const identity = { workspace, name, root };
const isolation = isolate(options);
const records = await ProcessGroupRecords.open(options.state, identity, timing.killAfterMs, logToStderr);

const host = new Host({
  gateway: { url: options.gateway, token: options.token, timing, limits, log: logToStderr },
  workspace: options.workspace,
  name: options.name,
  root: options.root,
  agents,
  passEnv: options.passEnv,
  isolation,
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

/** Says at start how agents are isolated, and ends the host if they cannot be isolated as the operator demands. */
function isolate(options: HostCommandLine): Isolation {
  const { isolation: choice, agentUser: user, root, state, hidden, hiddenIds } = options;
  // A directory that appears later would not be covered.
  for (const directory of [state, configDirectory(process.env), userStateDirectory(process.env)])
    makePrivate(directory);
  try {
    const wish = {
      choice,
      user,
      root,
      // The list grows when another gateway of the user starts.
      hidden: new HiddenPaths(root, () => [...hidden, ...localStates(process.env)], hiddenIds),
    };
    const { isolation, trouble } = chooseIsolation(wish, process.env);
    logToStderr(describeIsolation(isolation, trouble));
    const missing = missingLocalStates(process.env);
    if (missing.length > 0) logToStderr(describeMissing(missing));
    return isolation;
  } catch (error) {
    if (!(error instanceof NoIsolation || error instanceof HiddenPathMoved)) throw error;
    logToStderr(`agents cannot be isolated, so the host does not start: ${error.message}`);
    process.exit(EXIT.isolation);
  }
}

function describeMissing(missing: readonly string[]): string {
  const [shown, more] = [missing.slice(0, NAMED_STATES).join(", "), missing.length - NAMED_STATES];
  return `WARNING: not where a local gateway left its state: ${shown}${more > 0 ? ` and ${more} more` : ""}; if it was moved and not deleted, agents can read it elsewhere: move it back`;
}

function makePrivate(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch {
    // The host does without a directory that it cannot make, and then nothing has to be hidden.
  }
}

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
