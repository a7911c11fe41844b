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
