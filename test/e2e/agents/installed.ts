/**
 * The published agents of the tests. They are large, so they are not among the project's dependencies: each has a
 * package file and a lockfile here, and `npm run agents:install` puts it into a cache under the hash of both.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const AGENT_NAMES = ["claude", "gemini"] as const;
export type AgentName = (typeof AGENT_NAMES)[number];

const PACKAGE_FILES = ["package.json", "package-lock.json", ".npmrc"];

/** The files that say what to install. */
export function packageFiles(name: AgentName): { name: string; path: string }[] {
  return PACKAGE_FILES.map((file) => ({
    name: file,
    path: fileURLToPath(new URL(`${name}/${file}`, import.meta.url)),
  }));
}

/** Where an agent is, or will be, installed. */
export function installationDirectory(name: AgentName, env = process.env): string {
  const hash = createHash("sha256");
  for (const { path } of packageFiles(name)) hash.update(readFileSync(path));
  const cache =
    env.ACP_EDGE_AGENTS ?? join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "acp-edge", "agents");
  return join(cache, `${name}-${hash.digest("hex").slice(0, 16)}`);
}

/** The directory with the agent's packages. Absent: the agent is not installed, and the message says what to do. */
export function installedAgent(name: AgentName): { modules: string } | { missing: string } {
  const modules = join(installationDirectory(name), "node_modules");
  return existsSync(modules) ? { modules } : { missing: `${name} is not installed: npm run agents:install` };
}
