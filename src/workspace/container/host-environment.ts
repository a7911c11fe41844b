import { gitVariables } from "../../protocol/git-url.ts";
import type { ContainerSettings } from "../../protocol/workspace-settings.ts";
import { CONTAINER_HOST } from "./starter.ts";

/**
 * The environment of a host in a container: the options of `acp-edge host` as environment variables, and the repository
 * to clone. Of the workspace's secrets only those for git are in it; the host gets all of them when it has dialled in.
 */
export function hostEnvironment(
  gateway: string,
  workspace: string,
  token: string,
  drainMs: number,
  { agents, git }: ContainerSettings,
  secrets: Readonly<Record<string, string>>,
): Record<string, string> {
  return {
    ACP_EDGE_GATEWAY: gateway,
    ACP_EDGE_WORKSPACE: workspace,
    ACP_EDGE_NAME: CONTAINER_HOST,
    ACP_EDGE_HOST_TOKEN: token,
    ACP_EDGE_DRAIN: String(Math.floor(drainMs / 1000)),
    ...(agents === undefined ? {} : { ACP_EDGE_AGENTS: agents.join(",") }),
    ...(git === undefined ? {} : gitVariables(git.url, secrets)),
    ...(git?.ref === undefined ? {} : { GIT_REF: git.ref }),
  };
}
