import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import { parseArgs } from "node:util";
import type { AgentOptions } from "./agent/offered-agents.ts";
import { hostTokenSource } from "./link/host-token-source.ts";
import { defaultStateDirectory } from "./os/process-group-records.ts";
import type { ResourceLimits } from "./os/resource-watch.ts";

export const HOST_USAGE = `usage: acp-edge host --gateway URL --workspace ID --root DIR [options]

Runs agents for the sessions of a workspace, in the foreground, until SIGTERM or SIGINT.

  --gateway URL            address of the gateway
  --workspace ID           the workspace to serve
  --root DIR               its directory
  --name NAME              what this host is called (default: the machine's name)
  --drain SECONDS          how long SIGTERM or SIGINT lets turns finish before they are ended (default 30);
                           a second signal ends them at once, and so does 0
  --capacity N             agents it would like to run at most: hosts share sessions in proportion
  --max-agents N           agents it runs at most, spares included; sessions beyond go to other hosts or wait
  --agent-memory MB        memory of one agent and all it starts; one that uses more is ended
  --agent-processes N      processes of one agent, likewise
  --state DIR              where it notes its processes, so that what is left of them after a crash is ended by the
                           next host of this name (ACP_EDGE_HOST_STATE; default: $XDG_STATE_HOME/acp-edge)
  --agents ID,ID,…         agents of the catalogue it may start (ACP_EDGE_AGENTS; default: all of them)
  --default ID             the agent for whoever asks for none (ACP_EDGE_DEFAULT_AGENT; default: the first of
                           --agents, else demo)
  --agent COMMAND          an agent of your own (ACP_EDGE_AGENT), with the id custom, which then is the default
  --catalogue FILE         more agents, or the same ones told differently (ACP_EDGE_CATALOGUE); entries as in
                           the ACP registry
  --npx                    let npx and uvx download agents that are not installed (ACP_EDGE_NPX=1)
  --pass-env NAME,…        environment variables for every agent, besides those it declares (ACP_EDGE_PASS_ENV)
  --token TOKEN            host token (ACP_EDGE_HOST_TOKEN), visible to other users of this machine
  --token-file PATH        file with it (ACP_EDGE_HOST_TOKEN_FILE), read again for each connection
  --token-command COMMAND  command that prints it (ACP_EDGE_HOST_TOKEN_COMMAND), run again before it expires

The others can be in the environment too: ACP_EDGE_GATEWAY, ACP_EDGE_WORKSPACE, ACP_EDGE_ROOT, ACP_EDGE_NAME,
ACP_EDGE_DRAIN, ACP_EDGE_CAPACITY.

Exit codes: 0 ended by a signal, 1 failed, 2 wrong usage, 3 the gateway did not accept the token,
7 the gateway speaks another version of the link, 8 another host has taken over the name.`;

export type HostCommandLine = AgentOptions & {
  gateway: string;
  workspace: string;
  root: string;
  name: string;
  /** Gives the token to use now. */
  token: (refused?: string) => string;
  drainMs: number;
  capacity: number | undefined;
  maxAgents: number | undefined;
  limits: ResourceLimits;
  state: string;
  /** `npx` and `uvx` may download. */
  npx: boolean;
  passEnv: string[];
};

/** Throws an error with a message for the person at the keyboard. */
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
    limits: {
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
    throw new Error(`${name} must be a whole number, at least ${least}`);
  return number;
}

/** Splits a command as a shell would, with quotes and backslashes, but expands nothing. */
export function splitCommand(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (char === "\\" && quote !== "'" && at + 1 < text.length) {
      const next = text[++at] as string;
      const escapes = quote === "" || next === '"' || next === "\\";
      word = (word ?? "") + (escapes ? next : char + next);
    } else if (quote !== "" ? char === quote : char === "'" || char === '"') {
      quote = quote === "" ? char : "";
      word ??= "";
    } else if (quote === "" && /\s/.test(char)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + char;
    }
  }
  if (quote !== "") throw new Error(`the command lacks a closing ${quote}: ${text}`);
  if (word !== undefined) words.push(word);
  if (words.length === 0) throw new Error("the command is empty");
  return words;
}
