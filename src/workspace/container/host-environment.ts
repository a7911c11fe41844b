import type { ContainerSettings } from "../../protocol/workspace-settings.ts";
import { CONTAINER_HOST } from "./starter.ts";

/** The environment of a host in a container: the options of `acp-edge host` as environment variables. */
export function hostEnvironment(
  gateway: string,
  workspace: string,
  token: string,
  drainMs: number,
  { agents, git }: ContainerSettings,
): Record<string, string> {
  return {
    ACP_EDGE_GATEWAY: gateway,
    ACP_EDGE_WORKSPACE: workspace,
    ACP_EDGE_NAME: CONTAINER_HOST,
    ACP_EDGE_HOST_TOKEN: token,
    ACP_EDGE_DRAIN: String(Math.floor(drainMs / 1000)),
    ...(agents === undefined ? {} : { ACP_EDGE_AGENTS: agents.join(",") }),
    ...(git === undefined ? {} : { GIT_URL: git.url }),
    ...(git?.ref === undefined ? {} : { GIT_REF: git.ref }),
  };
}
