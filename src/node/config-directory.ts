import { homedir } from "node:os";
import { join } from "node:path";

/** Where the command keeps its profiles, with the tokens of this user. */
export function configDirectory(env: NodeJS.ProcessEnv): string {
  return join(env.XDG_CONFIG_HOME || join(homedir(), ".config"), "acp-edge");
}
