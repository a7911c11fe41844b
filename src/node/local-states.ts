import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/**
 * The state directories of this user's local gateways. They contain the keys that sign tokens, so every host of the user
 * hides them from its agents, also a host that another program started.
 */

/** Directory for the states of hosts and the list of local gateways, which a host hides as a whole. */
export function userStateDirectory(env: NodeJS.ProcessEnv): string {
  return join(env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "acp-edge");
}

export function rememberLocalState(directory: string, env: NodeJS.ProcessEnv): void {
  const list = listDirectory(env);
  mkdirSync(list, { recursive: true, mode: 0o700 });
  for (const [file, path] of entries(env)) if (!existsSync(path)) rmSync(file, { force: true });
  const name = createHash("sha256").update(directory).digest("hex");
  writeFileSync(join(list, name), directory, { mode: 0o600 });
}

export function localStates(env: NodeJS.ProcessEnv): string[] {
  return entries(env).map(([, path]) => path);
}

function entries(env: NodeJS.ProcessEnv): [file: string, path: string][] {
  const list = listDirectory(env);
  if (!existsSync(list)) return [];
  return readdirSync(list).map((name) => [join(list, name), readFileSync(join(list, name), "utf8")]);
}

function listDirectory(env: NodeJS.ProcessEnv): string {
  return join(userStateDirectory(env), "gateways");
}
