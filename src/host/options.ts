import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import { parseArgs } from "node:util";
import { splitCommand } from "../node/split-command.ts";
import type { AgentOptions } from "./agent/offered-agents.ts";
import { hostTokenSource } from "./link/host-token-source.ts";
import { defaultStateDirectory } from "./os/process-group-records.ts";
import type { ResourceLimits } from "./os/resource-watch.ts";

export const HOST_USAGE = `usage: acp-edge host --gateway URL --workspace ID --root DIR [options]

Runs agents for the sessions of a workspace, in the foreground, until SIGTERM or SIGINT.

  --gateway URL            address of the gateway
  --workspace ID           workspace to serve
  --root DIR               directory of the workspace
  --name NAME              name of this host (default: the machine's name)
  --drain SECONDS          how long SIGTERM or SIGINT lets running turns finish (default: 30); a second signal
                           ends them immediately, and so does 0
  --capacity N             preferred maximum number of agents; hosts share sessions in proportion
  --max-agents N           strict maximum number of agents, warm processes included; further sessions go to
                           other hosts or wait
  --agent-memory MB        memory limit of one agent and all its processes; an agent over the limit is ended
  --agent-processes N      limit for the number of processes of one agent; an agent over the limit is ended
  --state DIR              directory for the record of running processes; after a crash, the next host with this
                           name ends them (ACP_EDGE_HOST_STATE; default: $XDG_STATE_HOME/acp-edge)
  --agents ID,ID,…         agents of the catalogue that may be started (ACP_EDGE_AGENTS; default: all)
  --default ID             agent for clients that name none (ACP_EDGE_DEFAULT_AGENT; default: the first of
                           --agents, else demo)
  --agent COMMAND          command of your own agent (ACP_EDGE_AGENT); it gets the id custom and is the default
  --catalogue FILE         entries that extend or override the catalogue (ACP_EDGE_CATALOGUE), in the format of
                           the ACP registry
  --npx                    let npx and uvx download agents that are not installed (ACP_EDGE_NPX=1)
  --pass-env NAME,…        environment variables for every agent, besides those it declares (ACP_EDGE_PASS_ENV)
  --token TOKEN            host token (ACP_EDGE_HOST_TOKEN); visible to other users of this machine
  --token-file PATH        file with the token (ACP_EDGE_HOST_TOKEN_FILE); read again for each connection
  --token-command COMMAND  command that prints the token (ACP_EDGE_HOST_TOKEN_COMMAND); run again before the
                           token expires

Further environment variables: ACP_EDGE_GATEWAY, ACP_EDGE_WORKSPACE, ACP_EDGE_ROOT, ACP_EDGE_NAME, ACP_EDGE_DRAIN,
ACP_EDGE_CAPACITY. An option overrides its variable.

Exit codes: 0 ended by a signal, 1 failed, 2 wrong usage, 3 the gateway did not accept the token,
7 the gateway speaks another version of the host link, 8 another host took over the name.`;

export type HostCommandLine = AgentOptions & {
  gateway: string;
  workspace: string;
  root: string;
  name: string;
  /** Returns the token to use now. */
  token: (refused?: string) => string;
  drainMs: number;
  capacity: number | undefined;
  maxAgents: number | undefined;
  agentLimits: ResourceLimits;
  state: string;
  /** `npx` and `uvx` may download. */
  npx: boolean;
  passEnv: string[];
};

/** Throws an error whose message is meant for the user. */
export function readCommandLine(args: string[], env: NodeJS.ProcessEnv): HostCommandLine {
  const { values } = parseArgs({
    args,
    options: {
      gateway: { type: "string" },
      workspace: { type: "string" },
      root: { type: "string" },
      name: { type: "string" },
      token: { type: "string" },
      "token-file": { type: "string" },
      "token-command": { type: "string" },
      agents: { type: "string" },
      default: { type: "string" },
      agent: { type: "string" },
      catalogue: { type: "string" },
      npx: { type: "boolean" },
      "pass-env": { type: "string" },
      drain: { type: "string" },
      capacity: { type: "string" },
      "max-agents": { type: "string" },
      "agent-memory": { type: "string" },
      "agent-processes": { type: "string" },
      state: { type: "string" },
    },
  });
  const gateway = required("--gateway", values.gateway ?? env.ACP_EDGE_GATEWAY);
  const capacity = values.capacity ?? (env.ACP_EDGE_CAPACITY || undefined);
  if (!/^https?:$/.test(new URL(gateway).protocol)) throw new Error("--gateway must be an http(s) URL");
  const agent = values.agent ?? (env.ACP_EDGE_AGENT || undefined);
  const agents = values.agents ?? env.ACP_EDGE_AGENTS;
  const memory = optionalNumber("--agent-memory", values["agent-memory"]);
  return {
    gateway,
    workspace: required("--workspace", values.workspace ?? env.ACP_EDGE_WORKSPACE),
    root: realpathSync(required("--root", values.root ?? env.ACP_EDGE_ROOT)),
    name: values.name ?? (env.ACP_EDGE_NAME || hostname()),
    token: hostTokenSource(
      { token: values.token, file: values["token-file"], command: values["token-command"] },
      {
        token: env.ACP_EDGE_HOST_TOKEN,
        file: env.ACP_EDGE_HOST_TOKEN_FILE,
        command: env.ACP_EDGE_HOST_TOKEN_COMMAND,
      },
    ),
    agent: agent === undefined ? undefined : splitCommand(agent),
    agents: agents ? list(agents) : undefined,
    defaultAgent: values.default ?? (env.ACP_EDGE_DEFAULT_AGENT || undefined),
    catalogue: values.catalogue ?? (env.ACP_EDGE_CATALOGUE || undefined),
    npx: values.npx ?? env.ACP_EDGE_NPX === "1",
    passEnv: list(values["pass-env"] ?? env.ACP_EDGE_PASS_ENV ?? ""),
    drainMs: 1000 * numberFrom("--drain", values.drain ?? (env.ACP_EDGE_DRAIN || "30"), 0),
    capacity: optionalNumber("--capacity", capacity),
    maxAgents: optionalNumber("--max-agents", values["max-agents"]),
    agentLimits: {
      memoryBytes: memory === undefined ? undefined : memory * 1024 * 1024,
      processes: optionalNumber("--agent-processes", values["agent-processes"]),
    },
    state: values.state ?? (env.ACP_EDGE_HOST_STATE || defaultStateDirectory(env)),
  };
}

function list(text: string): string[] {
  return text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
}

function required(name: string, value: string | undefined): string {
  if (!value) throw new Error(`${name} is missing`);
  return value;
}

function optionalNumber(name: string, text: string | undefined): number | undefined {
  return text === undefined ? undefined : numberFrom(name, text, 1);
}

function numberFrom(name: string, text: string, least: number): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < least)
    throw new Error(`${name} must be a whole number of at least ${least}`);
  return number;
}
