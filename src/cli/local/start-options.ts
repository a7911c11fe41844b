import { statSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { readLimits } from "../../protocol/limits.ts";

export type StartOptions = {
  /** Absent: the default port, or any free port if it is taken. 0: any free port. */
  port?: number;
  root: string;
  state: string;
  /** Command of the default agent; absent: the demo agent. */
  agent?: string;
  /** Id of the default agent, if the user chose one from the catalogue. */
  defaultAgent?: string | undefined;
  /** Arguments that are passed on to the host unchanged. */
  host: string[];
  json: boolean;
  watch: boolean;
  /** Hosts are started only when a session needs one. */
  onDemand: boolean;
  help: boolean;
};

/** A mistake in the command line: its message is shown with the help text, and the exit code is 2. */
export class UsageError extends Error {}

/** A mistake in an environment variable, on which the help text is silent: the exit code is 2 as well. */
export class VariableError extends Error {}

export const START_HELP = `Usage: npm start -- [options]

Starts a gateway on workerd, a host for one directory, and an agent.

  --port N            port on 127.0.0.1 (default: 8790, or a free port if it is taken; 0: any free port)
  --root DIR          workspace: the directory that agents work in (default: the current directory)
  --agent "COMMAND"   ACP agent to run instead of the demo agent, such as "npx opencode-ai acp"
  --agents ID,ID,…    agents of the catalogue that may be started (default: all that are installed and have their keys)
  --default ID        agent for clients that name none (default: the first of --agents, else demo)
  --catalogue FILE    entries that extend or override the catalogue, in the format of the ACP registry
  --npx               let npx and uvx download agents that are not installed
  --pass-env NAME,…   environment variables for every agent, besides those it declares
  --isolation KIND    how agents are kept from tokens and from each other: auto (default), require, user, bwrap,
                      unshare or none
  --agent-user NAME   user that agents run as, if this user may change to it
  --state DIR         directory for sessions and index (default: .acp-edge); keys.txt in it says where its keys are
  --on-demand         start the host when a session needs it and end it afterwards, as with containers
  --json              print one line of JSON when ready; logs go to stderr
  --watch             rebuild and restart when the sources change
  --help              print this text
`;

const HOST_OPTIONS = [
  "agents",
  "default",
  "catalogue",
  "npx",
  "pass-env",
  "isolation",
  "agent-user",
] as const;

/** Refuses a variable that the gateway would refuse at every request, after it has started. */
export function checkVariables({ ACP_EDGE_LIMITS }: NodeJS.ProcessEnv): void {
  try {
    readLimits(ACP_EDGE_LIMITS);
  } catch (error) {
    throw new VariableError(`ACP_EDGE_LIMITS: ${error instanceof Error ? error.message : String(error)}`);
  }
}

export function parseStartOptions(argv: string[], cwd: string): StartOptions {
  const { values } = parse(argv);
  const options: StartOptions = {
    root: resolve(cwd, values.root ?? "."),
    state: resolve(cwd, values.state ?? ".acp-edge"),
    defaultAgent: values.default ?? values.agents?.split(",")[0],
    host: HOST_OPTIONS.flatMap((name) => {
      const value = values[name];
      return value === undefined ? [] : [`--${name}${typeof value === "string" ? `=${value}` : ""}`];
    }),
    json: values.json ?? false,
    watch: values.watch ?? false,
    onDemand: values["on-demand"] ?? false,
    help: values.help ?? false,
  };
  if (values.port !== undefined) options.port = parsePort(values.port);
  if (values.agent !== undefined) options.agent = parseCommand(values.agent);
  if (!statSync(options.root, { throwIfNoEntry: false })?.isDirectory()) {
    throw new UsageError(`--root: ${options.root} is not a directory`);
  }
  return options;
}

function parse(argv: string[]) {
  try {
    return parseArgs({
      args: argv,
      options: {
        port: { type: "string" },
        root: { type: "string" },
        agent: { type: "string" },
        agents: { type: "string" },
        default: { type: "string" },
        catalogue: { type: "string" },
        npx: { type: "boolean" },
        "pass-env": { type: "string" },
        isolation: { type: "string" },
        "agent-user": { type: "string" },
        state: { type: "string" },
        json: { type: "boolean" },
        watch: { type: "boolean" },
        "on-demand": { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function parsePort(text: string): number {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65_535) throw new UsageError(`--port: ${text} is not a port number`);
  return port;
}

function parseCommand(text: string): string {
  if (text.trim() === "") throw new UsageError("--agent: the command is empty");
  return text;
}
