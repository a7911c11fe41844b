/**
 * How a workspace gets a host when it has none. AgentContainer is this on Cloudflare; the workspace knows nothing
 * of containers but these two calls, and what it is told in return (`WorkspaceState.hostEnded`, `isHostWanted`).
 */
export interface HostStarter {
  /** Starts the host, unless it runs. Throws when it cannot be started. */
  wake(order: HostOrder): Promise<void>;
  /** Has the host end, after its turns or now. False: there is none. */
  sleep(now: boolean): Promise<boolean>;
}

export type HostOrder = {
  tenant: string;
  workspace: string;
  /** Which start this is: the workspace counts them, to know of which one it hears. */
  life: number;
  /** All the host is told. */
  env: Record<string, string>;
};

/** What such a host is called: it has the same name in each of its lives, because its sessions wait for it by name. */
export const CONTAINER_HOST = "container";

/** Why this gateway cannot start containers, if so. */
export function cannotStart(env: Env): string | undefined {
  const missing = [
    env.AGENT_CONTAINER ? [] : "the binding AGENT_CONTAINER",
    env.PUBLIC_URL ? [] : "the variable PUBLIC_URL",
    env.HOST_SIGNING_KEY ? [] : "the secret HOST_SIGNING_KEY",
  ].flat();
  return missing.length === 0
    ? undefined
    : `This gateway cannot start containers: it lacks ${missing.join(", ")}`;
}
