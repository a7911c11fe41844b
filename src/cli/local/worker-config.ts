import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { SourcelessWorkerOptions } from "wrangler";

/** What wrangler.toml means for Miniflare. */
export type WorkerConfig = {
  name: string;
  worker: SourcelessWorkerOptions;
  migrations: Migration[];
};

export type Migration = {
  /** The D1 binding it is for. */
  binding: string;
  name: string;
  statements: string[];
};

/**
 * Wrangler takes more than a second to load, which is most of what a start takes. So what it said is kept beside the
 * packages, by all that it was made of: the file, variables, migrations, wrangler's own version.
 */
export async function readWorkerConfig(configPath: string, signal: AbortSignal): Promise<WorkerConfig> {
  const known = join(dirname(configPath), "node_modules/.cache/acp-edge", `${await keyOf(configPath)}.json`);
  try {
    return JSON.parse(await readFile(known, "utf8")) as WorkerConfig;
  } catch {
    const config = await askWrangler(configPath, signal);
    await keep(known, config);
    return config;
  }
}

async function keyOf(configPath: string): Promise<string> {
  const directory = dirname(configPath);
  const files = [
    configPath,
    ...VARIABLES.map((name) => join(directory, name)),
    ...(await filesIn(join(directory, "migrations"))),
    fileURLToPath(import.meta.resolve("wrangler/package.json")),
    SCRIPT,
  ];
  const hash = createHash("sha256");
  for (const file of files) hash.update(`${file}\0`).update(await readFile(file).catch(() => "none"));
  return hash.digest("hex");
}

/** Where wrangler looks for variables of one machine. */
const VARIABLES = [".dev.vars", ".env", ".env.local"];

async function filesIn(directory: string): Promise<string[]> {
  return (await readdir(directory)).sort().map((name) => join(directory, name));
}

/** Several may start at the same time; where nothing can be written, the next start asks again. */
async function keep(path: string, config: WorkerConfig): Promise<void> {
  const draft = `${path}.${process.pid}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(draft, JSON.stringify(config));
    await rename(draft, path);
  } catch {
    await rm(draft, { force: true });
  }
}

/** In a process that ends: wrangler takes 300 MB, too much for one that stays. */
async function askWrangler(configPath: string, signal: AbortSignal): Promise<WorkerConfig> {
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, configPath], { signal });
  // The last line: wrangler may have had something to say before it.
  return JSON.parse(stdout.slice(stdout.lastIndexOf("\n") + 1)) as WorkerConfig;
}

const SCRIPT = fileURLToPath(new URL("worker-config-process.ts", import.meta.url));
