import { LIMITS } from "../../protocol/limits.ts";
import type { ContainerSettings } from "../../protocol/workspace-settings.ts";
import { CONTAINER_HOST } from "./starter.ts";

/** What a host in a container is told: as options of `acp-edge host`, by the names they have in the environment. */
export function hostEnvironment(
  gateway: string,
  workspace: string,
  token: string,
  { agents, git }: ContainerSettings,
): Record<string, string> {
  return {
    ACP_EDGE_GATEWAY: gateway,
    ACP_EDGE_WORKSPACE: workspace,
    ACP_EDGE_NAME: CONTAINER_HOST,
    ACP_EDGE_HOST_TOKEN: token,
    ACP_EDGE_DRAIN: String(Math.floor(LIMITS.containerDrainMs / 1000)),
    ...(agents === undefined ? {} : { ACP_EDGE_AGENTS: agents.join(",") }),
    ...(git === undefined ? {} : { GIT_URL: git.url }),
    ...(git?.ref === undefined ? {} : { GIT_REF: git.ref }),
  };
}
