import { readFileSync } from "node:fs";
import { Command } from "commander";
import type { Workspace } from "../api-client.ts";
import { ApiClient } from "../api-client.ts";
import { CliError, EXIT, reasonOf } from "../exit.ts";
import { ago, brief, table } from "../terminal.ts";
import { apiOf, type GatewayOptions, print, stdout, talking, targetOf, workspacesOf } from "./context.ts";

/** Workspaces, and the two things they consist of. */

export function workspacesCommand(): Command {
  return new Command("workspaces")
    .description("Workspaces: list, look into, set their policy")
    .addCommand(ls(), { isDefault: true })
    .addCommand(show())
    .addCommand(set());
}

export function hostsCommand(): Command {
  return talking("hosts", "List connected hosts").action(async (options: GatewayOptions) => {
    const hosts = (await all(options)).flatMap(({ id, hosts }) =>
      hosts.map((host) => ({ workspace: id, ...host })),
    );
    print(options, { hosts }, () => {
      if (hosts.length === 0) return "no host is connected";
      const rows = hosts.map(({ name, workspace, connectedAt, root }) => [
        brief(name),
        workspace,
        ago(connectedAt),
        root,
      ]);
      return table(["HOST", "WORKSPACE", "SINCE", "ROOT"], rows, stdout);
    });
  });
}

export function agentsCommand(): Command {
  return talking("agents", "List agents").action(async (options: GatewayOptions) => {
    const agents = (await all(options)).flatMap(({ id, agents }) =>
      agents.map((agent) => ({ workspace: id, ...agent })),
    );
    print(options, { agents }, () => {
      if (agents.length === 0) return "no agent is offered: is a host connected?";
      const rows = agents.map((agent) => [
        brief(agent.id) + (agent.default ? " *" : ""),
        agent.workspace,
        agent.error ? "failed" : agent.ready ? "ready" : "not started",
        agent.error ? brief(agent.error, 80) : brief(agent.name),
      ]);
      return table(["AGENT", "WORKSPACE", "STATE", ""], rows, stdout);
    });
  });
}

function ls(): Command {
  return talking("ls", "List the workspaces the token is for").action(async (options: GatewayOptions) => {
    const workspaces = await all(options);
    print(options, { workspaces }, () => {
      const rows = workspaces.map(({ id, hosts, agents }) => [
        id,
        hosts.map(({ name }) => brief(name)).join(", ") || "none",
        agents.map((agent) => brief(agent.id) + (agent.default ? "*" : "")).join(", ") || "none",
      ]);
      return table(["WORKSPACE", "HOSTS", "AGENTS"], rows, stdout);
    });
  });
}

function show(): Command {
  return talking("show", "One workspace: hosts, agents, policy")
    .argument("[workspace]", "by default the one configured")
    .action(async (id: string | undefined, options: GatewayOptions) => {
      const workspace = await apiOf(options).workspace(await named(id, options));
      print(options, workspace, () => describe(workspace));
    });
}

function describe({ id, hosts, agents, policy }: Workspace): string {
  const { bold, dim } = stdout.colours;
  return [
    bold(id),
    ...hosts.map(
      ({ name, root, connectedAt }) => `${dim("host  ")} ${brief(name)}  ${root}  since ${ago(connectedAt)}`,
    ),
    ...agents.map(
      (agent) =>
        `${dim("agent ")} ${brief(agent.id)}${agent.default ? " *" : ""}  ${agent.error ? `failed: ${brief(agent.error, 100)}` : agent.ready ? "ready" : "not started"}`,
    ),
    `${dim("policy")} ${JSON.stringify(policy)}`,
  ].join("\n");
}

function set(): Command {
  return talking("set", "Set the policy of a workspace")
    .argument("[workspace]", "by default the one configured")
    .requiredOption("--policy <json>", 'such as \'{"default":"ask","byKind":{"read":"allow"}}\', or @FILE')
    .action(async (id: string | undefined, options: GatewayOptions & { policy: string }) => {
      const policy = parsePolicy(options.policy);
      const workspace = await apiOf(options).setWorkspace(await named(id, options), { policy });
      print(options, workspace, () => describe(workspace));
    });
}

function parsePolicy(text: string): unknown {
  try {
    return JSON.parse(text.startsWith("@") ? readFileSync(text.slice(1), "utf8") : text);
  } catch (error) {
    throw new CliError(`--policy is not JSON: ${reasonOf(error)}`, EXIT.usage);
  }
}

async function named(id: string | undefined, options: GatewayOptions): Promise<string> {
  return id ?? ((await workspacesOf(targetOf(options)))[0] as string);
}

async function all(options: GatewayOptions): Promise<Workspace[]> {
  const target = targetOf(options);
  const api = new ApiClient(target);
  return Promise.all((await workspacesOf(target)).map((id) => api.workspace(id)));
}
