import type { CLIENT_METHODS } from "@agentclientprotocol/sdk";

/**
 * Methods by their SDK type only: importing the constants would bundle the SDK's schemas into the Worker.
 * A method the SDK does not know does not compile.
 */
type ClientMethod = (typeof CLIENT_METHODS)[keyof typeof CLIENT_METHODS];

const HOST_SERVED: ReadonlySet<string> = new Set<ClientMethod>([
  "fs/read_text_file",
  "fs/write_text_file",
  "terminal/create",
  "terminal/output",
  "terminal/wait_for_exit",
  "terminal/kill",
  "terminal/release",
]);

/** Files and terminals are those of the workspace, so its host answers for the client. */
export function isHostServed(method: string): boolean {
  return HOST_SERVED.has(method);
}
