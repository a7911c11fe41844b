/** The name of the host in the container. Every start uses this name, because sessions wait for their host by name. */
export const CONTAINER_HOST = "container";

type Configuration = Pick<Env, "AGENT_CONTAINER" | "PUBLIC_URL" | "HOST_SIGNING_KEY">;

/** Why this gateway cannot start containers; undefined if it can. */
export function missingConfiguration(env: Configuration): string | undefined {
  const missing = [
    env.AGENT_CONTAINER ? [] : "the binding AGENT_CONTAINER",
    env.PUBLIC_URL ? [] : "the variable PUBLIC_URL",
    env.HOST_SIGNING_KEY ? [] : "the secret HOST_SIGNING_KEY",
  ].flat();
  return missing.length === 0
    ? undefined
    : `This gateway cannot start containers: it lacks ${missing.join(", ")}`;
}
