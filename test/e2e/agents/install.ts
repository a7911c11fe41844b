/** Installs the published agents of the tests, unless they are there: `npm run agents:install`. */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { AGENT_NAMES, type AgentName, installationDirectory, packageFiles } from "./installed.ts";

for (const name of AGENT_NAMES) install(name);

function install(name: AgentName): void {
  const directory = installationDirectory(name);
  if (existsSync(directory)) return console.log(`${name}: is in ${directory}`);
  const began = Date.now();
  // Tests that look for the agent meanwhile find all of it or nothing.
  const unfinished = `${directory}.${process.pid}`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  for (const file of packageFiles(name)) copyFileSync(file.path, join(unfinished, file.name));
  const { status, signal } = spawnSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: unfinished,
    stdio: "inherit",
  });
  if (status !== 0) {
    rmSync(unfinished, { recursive: true, force: true });
    throw new Error(`npm ended with ${signal ?? status} in ${dirname(directory)}`);
  }
  if (existsSync(directory)) rmSync(unfinished, { recursive: true, force: true });
  else renameSync(unfinished, directory);
  console.log(`${name}: installed in ${Math.round((Date.now() - began) / 1000)} s, in ${directory}`);
}
