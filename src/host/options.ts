import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { configDirectory } from "../node/config-directory.ts";
import { userStateDirectory } from "../node/local-states.ts";
import { splitCommand } from "../node/split-command.ts";
import { insecureUrlMessage, isSecureUrl } from "../protocol/secure-url.ts";
import type { AgentOptions } from "./agent/offered-agents.ts";
import { ISOLATION_CHOICES, type IsolationChoice } from "./isolation/choose-isolation.ts";
import { hostTokenSource } from "./link/host-token-source.ts";
import type { ResourceLimits } from "./os/resource-watch.ts";

export const HOST_USAGE = `usage: acp-edge host --gateway URL --workspace ID --root DIR [options]

Runs agents for the sessions of a workspace, in the foreground, until SIGTERM or SIGINT.

  --gateway URL            address of the gateway
  --insecure               allow --gateway to be plain http on another machine: others on the way can read the
                           token and the workspace's secrets (ACP_EDGE_INSECURE=1)
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
  --isolation KIND         how agents are kept from the host's token and from each other (ACP_EDGE_ISOLATION): auto
                           (default) takes the best that works, require refuses to start if nothing works; user,
                           bwrap and unshare demand one kind, none does without
  --agent-user NAME        user that agents run as (ACP_EDGE_AGENT_USER), if the host may change to it
  --hide PATH              further file or directory that agents must not see; may be repeated (ACP_EDGE_HIDE,
                           separated by commas)
  --hide-id ID             DEVICE:INODE:PATH: the host refuses to start if another directory is there; may be repeated
  --agents ID,ID,…         agents of the catalogue that may be started (ACP_EDGE_AGENTS; default: all)
  --default ID             agent for clients that name none (ACP_EDGE_DEFAULT_AGENT; default: the first of
                           --agents, else demo)
  --agent COMMAND          command of your own agent (ACP_EDGE_AGENT_COMMAND); it gets the id custom and is the
                           default
  --catalogue FILE         entries that extend or override the catalogue (ACP_EDGE_CATALOGUE), in the format of
                           the ACP registry
  --npx                    let npx and uvx download agents that are not installed (ACP_EDGE_NPX=1)
  --pass-env NAME,…        environment variables for every agent, besides those it declares (ACP_EDGE_PASS_ENV)
  --token TOKEN            host token (ACP_EDGE_HOST_TOKEN); the host replaces itself by a program without it, but
                           the program that started the host may still show it
  --token-fd N             open descriptor that the token is read from (ACP_EDGE_HOST_TOKEN_FD)
  --token-file PATH        file with the token (ACP_EDGE_HOST_TOKEN_FILE); read again for each connection
  --token-command COMMAND  command that prints the token (ACP_EDGE_HOST_TOKEN_COMMAND); run again before the
                           token expires

Further environment variables: ACP_EDGE_GATEWAY, ACP_EDGE_WORKSPACE, ACP_EDGE_ROOT, ACP_EDGE_NAME, ACP_EDGE_DRAIN,
ACP_EDGE_CAPACITY. An option overrides its variable.

Exit codes: 0 ended by a signal, 1 failed, 2 wrong usage, 3 the gateway did not accept the token,
7 the gateway speaks another version of the host link, 8 another host took over the name, 9 agents cannot be isolated.`;

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
  isolation: IsolationChoice;
  agentUser: string | undefined;
  /** Files and directories that agents must not see. */
  hidden: string[];
  /** Device and inode of hidden paths, as the program that started the host saw them. */
  hiddenIds: ReadonlyMap<string, string>;
};

/** The gateway's address is not encrypted. The message says everything, so no usage text follows it. */
export class InsecureGateway extends Error {}

/** Throws an error whose message is meant for the user. */
export function readCommandLine(args: string[], env: NodeJS.ProcessEnv): HostCommandLine {
  const { values } = parseArgs({
    args,
    options: {
      gateway: { type: "string" },
      insecure: { type: "boolean" },
      workspace: { type: "string" },
      root: { type: "string" },
      name: { type: "string" },
      token: { type: "string" },
      "token-fd": { type: "string" },
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
      isolation: { type: "string" },
      "agent-user": { type: "string" },
      hide: { type: "string", multiple: true },
      "hide-id": { type: "string", multiple: true },
    },
  });
  const gateway = required("--gateway", values.gateway ?? env.ACP_EDGE_GATEWAY);
  const capacity = values.capacity ?? (env.ACP_EDGE_CAPACITY || undefined);
  if (!/^https?:$/.test(new URL(gateway).protocol)) throw new Error("--gateway must be an http(s) URL");
  const isInsecureAllowed = values.insecure ?? ["1", "true"].includes(env.ACP_EDGE_INSECURE ?? "");
  if (!isSecureUrl(gateway) && !isInsecureAllowed) throw new InsecureGateway(insecureUrlMessage(gateway));
  const agent = values.agent ?? (env.ACP_EDGE_AGENT_COMMAND || oldAgentCommand(env));
  const agents = values.agents ?? env.ACP_EDGE_AGENTS;
  const memory = optionalNumber("--agent-memory", values["agent-memory"]);
  const state = values.state ?? (env.ACP_EDGE_HOST_STATE || userStateDirectory(env));
  const tokenFile = values["token-file"] ?? env.ACP_EDGE_HOST_TOKEN_FILE;
  return {
    gateway,
    workspace: required("--workspace", values.workspace ?? env.ACP_EDGE_WORKSPACE),
    root: realpathSync(required("--root", values.root ?? env.ACP_EDGE_ROOT)),
    name: values.name ?? (env.ACP_EDGE_NAME || hostname()),
    token: hostTokenSource(
      {
        token: values.token,
        fd: values["token-fd"],
        file: values["token-file"],
        command: values["token-command"],
      },
      {
        token: env.ACP_EDGE_HOST_TOKEN,
        fd: env.ACP_EDGE_HOST_TOKEN_FD,
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
    state,
    isolation: isolationChoice(values.isolation ?? (env.ACP_EDGE_ISOLATION || "auto")),
    agentUser: values["agent-user"] ?? (env.ACP_EDGE_AGENT_USER || undefined),
    hiddenIds: new Map((values["hide-id"] ?? []).map(hiddenId)),
    hidden: [
      state,
      userStateDirectory(env),
      configDirectory(env),
      ...(tokenFile ? [tokenFile] : []),
      ...(values.hide ?? list(env.ACP_EDGE_HIDE ?? "")),
    ].map((path) => resolve(path)),
  };
}

/** For the command the variable is the id of an agent. A command line is no id, so earlier uses stay valid. */
function oldAgentCommand({ ACP_EDGE_AGENT: text = "" }: NodeJS.ProcessEnv): string | undefined {
  return /^[a-z0-9-]*$/.test(text) ? undefined : text;
}

/** `DEVICE:INODE:PATH`. */
function hiddenId(text: string): [path: string, id: string] {
  const [, id, path] = /^(\d+:\d+):(\/.*)$/s.exec(text) ?? [];
  if (id === undefined || path === undefined) throw new Error("--hide-id must be DEVICE:INODE:PATH");
  return [path, id];
}

function isolationChoice(text: string): IsolationChoice {
  const choice = ISOLATION_CHOICES.find((known) => known === text);
  if (!choice) throw new Error(`--isolation must be one of ${ISOLATION_CHOICES.join(", ")}`);
  return choice;
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
