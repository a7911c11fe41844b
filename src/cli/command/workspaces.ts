import { readFileSync } from "node:fs";
import { Command } from "commander";
import type { AgentInfo, HostView, WorkspaceView } from "../../protocol/rest.ts";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import { ApiClient } from "../gateway/api-client.ts";
import { ago, brief, table } from "../text-format.ts";
import { type GatewayOptions, gatewayCommand, parseSeconds } from "./command-options.ts";
import { print, stdout } from "./output.ts";
import { apiOf, resolveWorkspace, resolveWorkspaces, targetOf } from "./resolve.ts";

/** Workspaces, their hosts and their agents. */

export function workspacesCommand(): Command {
  return new Command("workspaces")
    .description("List, inspect and configure workspaces")
    .addCommand(ls(), { isDefault: true })
    .addCommand(show())
    .addCommand(set());
}

export function hostsCommand(): Command {
  return gatewayCommand("hosts", "List hosts, including disconnected ones").action(
    async (options: GatewayOptions) => {
      const hosts = (await all(options)).flatMap(({ id, hosts }) =>
        hosts.map((host) => ({ workspace: id, ...host })),
      );
      print(options, { hosts }, () => {
        if (hosts.length === 0) return "no host has ever connected";
        const rows = hosts.map(({ name, workspace, state, connectedAt, lastSeenAt, load, version, root }) => [
          brief(name),
          workspace,
          state,
          ago(state === "gone" ? lastSeenAt : connectedAt),
          `${load.sessions}/${load.capacity}`,
          brief(version),
          root,
        ]);
        return table(["HOST", "WORKSPACE", "STATE", "SINCE", "LOAD", "VERSION", "ROOT"], rows, stdout);
      });
    },
  );
}

export function agentsCommand(): Command {
  return gatewayCommand("agents", "List agents").action(async (options: GatewayOptions) => {
    const agents = (await all(options)).flatMap(({ id, agents }) =>
      agents.map((agent) => ({ workspace: id, ...agent })),
    );
    print(options, { agents }, () => {
      if (agents.length === 0) return "no agent is offered: is a host connected?";
      const rows = agents.map((agent) => [
        brief(agent.id) + (agent.default ? " *" : ""),
        agent.workspace,
        stateOf(agent),
        brief(agent.reason ?? agent.error ?? agent.name, 80),
      ]);
      return table(["AGENT", "WORKSPACE", "STATE", ""], rows, stdout);
    });
  });
}

function ls(): Command {
  return gatewayCommand("ls", "List the workspaces that the token allows").action(
    async (options: GatewayOptions) => {
      const workspaces = await all(options);
      print(options, { workspaces }, () => {
        const rows = workspaces.map(({ id, hosts, agents }) => [
          id,
          present(hosts)
            .map(({ name }) => brief(name))
            .join(", ") || "none",
          agents
            .filter(({ available }) => available)
            .map((agent) => brief(agent.id) + (agent.default ? "*" : ""))
            .join(", ") || "none",
        ]);
        return table(["WORKSPACE", "HOSTS", "AGENTS"], rows, stdout);
      });
    },
  );
}

function show(): Command {
  return gatewayCommand("show", "Show a workspace: git state, hosts, agents, policy")
    .argument("[workspace]", "workspace id (default: the configured workspace)")
    .action(async (id: string | undefined, options: GatewayOptions) => {
      const workspace = await apiOf(options).workspace(await named(id, options));
      print(options, workspace, () => describe(workspace));
    });
}

function describe({ id, name, git, hosts, agents, policy, opening }: WorkspaceView): string {
  const { bold, dim } = stdout.colours;
  return [
    bold(id) + (name === null ? "" : `  ${brief(name)}`),
    ...(git === null
      ? []
      : [`${dim("git   ")} ${brief(git.branch ?? "(no branch)")}, ${git.modifiedCount} modified`]),
    ...hosts.map(
      ({ name, state, root, connectedAt, lastSeenAt }) =>
        `${dim("host  ")} ${brief(name)}  ${root}  ${state} since ${ago(state === "gone" ? lastSeenAt : connectedAt)}`,
    ),
    ...agents.map((agent) => {
      const why = agent.reason ?? agent.error;
      const state = stateOf(agent) + (why === null ? "" : `: ${brief(why, 100)}`);
      return `${dim("agent ")} ${brief(agent.id)}${agent.default ? " *" : ""}  ${state}`;
    }),
    `${dim("policy")} ${JSON.stringify(policy)}`,
    `${dim("opens ")} ${JSON.stringify(opening)}`,
  ].join("\n");
}

function present(hosts: readonly HostView[]): HostView[] {
  return hosts.filter(({ state }) => state !== "gone");
}

function stateOf({ available, error, ready }: AgentInfo): string {
  if (!available) return "not available";
  return error ? "failed" : ready ? "ready" : "not started";
}

type SetOptions = GatewayOptions & {
  policy?: string;
  name?: string;
  defaultAgent?: string;
  sharedFiles?: boolean;
  hostGrace?: number;
  clientIo?: string;
  closeMeans?: string;
  container?: string;
  mcpServers?: string;
  additionalDirectories?: string;
  openingMeta?: string;
};

function set(): Command {
  return gatewayCommand("set", "Configure a workspace")
    .argument("[workspace]", "workspace id (default: the configured workspace)")
    .option(
      "--policy <json>",
      'permission policy such as \'{"default":"ask","byKind":{"read":"allow"}}\', or @FILE',
    )
    .option("--name <text>", "display name")
    .option("--default-agent <id>", "agent for clients that name none")
    .option("--shared-files", "all hosts see the same files")
    .option("--no-shared-files", "each host has its own files")
    .option(
      "--host-grace <seconds>",
      "how long a host may be disconnected before its sessions move or pause",
      parseSeconds,
    )
    .option("--client-io <where>", "who serves files and terminals to agents: host or client")
    .option(
      "--container <json>",
      "container for sessions without a host: {} enables, null disables; or @FILE",
    )
    .option("--close-means <what>", "what a client's session/close means: auto, end or detach")
    .option("--mcp-servers <which>", "MCP servers that clients may bring along: none, http, all or default")
    .option(
      "--additional-directories <which>",
      "more directories that clients may name: root, all or default",
    )
    .option("--opening-meta <keys>", "keys of _meta that reach agents: KEY,KEY,…, none, all or default")
    .action(async (id: string | undefined, options: SetOptions) => {
      const { policy, name, defaultAgent, sharedFiles, hostGrace, clientIo, closeMeans, container } = options;
      const change = {
        ...(policy !== undefined && { policy: parseJson("--policy", policy) }),
        ...(container !== undefined && { container: parseJson("--container", container) }),
        name,
        defaultAgent,
        sharedFiles,
        hostGraceMs: hostGrace === undefined ? undefined : hostGrace * 1000,
        clientIo,
        closeMeans,
        mcpServers: orDefault(options.mcpServers),
        additionalDirectories: orDefault(options.additionalDirectories),
        openingMeta: metaKeys(options.openingMeta),
      };
      const workspace = await apiOf(options).setWorkspace(await named(id, options), change);
      print(options, workspace, () => describe(workspace));
    });
}

/** Null is the default of the workspace. */
function orDefault(text: string | undefined): string | null | undefined {
  return text === "default" ? null : text;
}

function metaKeys(text: string | undefined): string[] | string | null | undefined {
  if (text === undefined || text === "all" || text === "default") return orDefault(text);
  return text === "none" ? [] : text.split(",").map((key) => key.trim());
}

function parseJson(option: string, text: string): unknown {
  try {
    return JSON.parse(text.startsWith("@") ? readFileSync(text.slice(1), "utf8") : text);
  } catch (error) {
    throw new CliError(`${option} is not JSON: ${describeError(error)}`, EXIT.usage);
  }
}

async function named(id: string | undefined, options: GatewayOptions): Promise<string> {
  return id ?? resolveWorkspace(options);
}

async function all(options: GatewayOptions): Promise<WorkspaceView[]> {
  const target = targetOf(options);
  const api = new ApiClient(target);
  return Promise.all((await resolveWorkspaces(target)).map((id) => api.workspace(id)));
}
