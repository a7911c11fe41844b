import { execFile } from "node:child_process";
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

/** Asks a process that ends: wrangler takes a second and 300 MB to load, too much for one that stays. */
export async function readWorkerConfig(configPath: string, signal: AbortSignal): Promise<WorkerConfig> {
  const script = fileURLToPath(new URL("worker-config-process.ts", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script, configPath], { signal });
  // The last line: wrangler may have had something to say before it.
  return JSON.parse(stdout.slice(stdout.lastIndexOf("\n") + 1)) as WorkerConfig;
}
