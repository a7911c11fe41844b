import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { CliError, EXIT } from "../cli-error.ts";

/** A named gateway: its address, defaults and token. */
const PROFILE = z.strictObject({
  url: z.string().optional(),
  workspace: z.string().optional(),
  agent: z.string().optional(),
  token: z.string().optional(),
  tokenCommand: z.string().optional(),
  tokenFile: z.string().optional(),
});

const CONFIG = z.strictObject({
  /** The profile that is used unless another one is named. */
  profile: z.string().default("default"),
  profiles: z.record(z.string(), PROFILE).default({}),
});

export type Profile = z.infer<typeof PROFILE>;
export type Config = z.infer<typeof CONFIG>;

export const PROFILE_KEYS = Object.keys(PROFILE.shape) as readonly (keyof Profile)[];

export function configPath(env: NodeJS.ProcessEnv): string {
  return join(env.XDG_CONFIG_HOME || join(homedir(), ".config"), "acp-edge", "config.json");
}

export function readConfig(env: NodeJS.ProcessEnv): Config {
  const path = configPath(env);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return CONFIG.parse({});
    throw new CliError(`${path} cannot be read: ${(error as Error).message}`, EXIT.usage);
  }
  const result = CONFIG.safeParse(parseJson(text, path));
  if (result.success) return result.data;
  throw new CliError(`${path} is invalid: ${z.prettifyError(result.error)}`, EXIT.usage);
}

/** The file may contain tokens, so only its owner can read it. Readers see the old or the new file, never a part. */
export function writeConfig(config: Config, env: NodeJS.ProcessEnv): void {
  const path = configPath(env);
  const draft = `${path}.${process.pid}`;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(draft, `${JSON.stringify(config, null, 2)}\n`, { mode: 0o600 });
  chmodSync(draft, 0o600);
  renameSync(draft, path);
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CliError(`${path} is not valid JSON: ${(error as Error).message}`, EXIT.usage);
  }
}
