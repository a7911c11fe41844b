import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { SourcelessWorkerOptions } from "wrangler";

/** The content of wrangler.toml as Miniflare needs it. */
export type WorkerConfig = {
  name: string;
  worker: SourcelessWorkerOptions;
  migrations: Migration[];
};

export type Migration = {
  /** The D1 binding of the database. */
  binding: string;
  name: string;
  statements: string[];
};

/**
 * Wrangler takes more than a second to load, which is most of the time of a start. Its result is therefore cached
 * beside the packages, under a hash of its inputs: the file, variables, migrations, and wrangler's version.
 */
export async function readWorkerConfig(configPath: string, signal: AbortSignal): Promise<WorkerConfig> {
  const cached = join(dirname(configPath), "node_modules/.cache/acp-edge", `${await keyOf(configPath)}.json`);
  try {
    return JSON.parse(await readFile(cached, "utf8")) as WorkerConfig;
  } catch {
    const config = await askWrangler(configPath, signal);
    await writeCache(cached, config);
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

/** The files in which wrangler looks for local variables. */
const VARIABLES = [".dev.vars", ".env", ".env.local"];

async function filesIn(directory: string): Promise<string[]> {
  return (await readdir(directory)).sort().map((name) => join(directory, name));
}

/** Several processes may write at the same time. If the directory is not writable, the next start asks wrangler again. */
async function writeCache(path: string, config: WorkerConfig): Promise<void> {
  const draft = `${path}.${process.pid}`;
  try {
    await mkdir(dirname(path), { recursive: true });
    await writeFile(draft, JSON.stringify(config));
    await rename(draft, path);
  } catch {
    await rm(draft, { force: true });
  }
}

/** Wrangler runs in a process that ends, because it keeps 300 MB of memory. */
async function askWrangler(configPath: string, signal: AbortSignal): Promise<WorkerConfig> {
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, configPath], { signal });
  // Wrangler may print messages first, so the result is the last line.
  return JSON.parse(stdout.slice(stdout.lastIndexOf("\n") + 1)) as WorkerConfig;
}

const SCRIPT = fileURLToPath(new URL("worker-config-process.ts", import.meta.url));
