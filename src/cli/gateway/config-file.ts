import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { configDirectory } from "../../node/config-directory.ts";
import { schemaFault } from "../../protocol/schema-fault.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { writePrivateJson } from "./private-json.ts";

/** A named gateway: its address, defaults and token. */
const PROFILE = z.strictObject({
  url: z.string().optional(),
  workspace: z.string().optional(),
  agent: z.string().optional(),
  token: z.string().optional(),
  tokenCommand: z.string().optional(),
  tokenFile: z.string().optional(),
  /** The file of a login at an OpenID provider, which renews its token. */
  loginFile: z.string().optional(),
  /** Allows this gateway to be reached without encryption, although it is not on this machine. */
  insecure: z.literal("true").optional(),
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
  return join(configDirectory(env), "config.json");
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
  throw new CliError(`${path} is invalid: ${schemaFault(result.error)}`, EXIT.usage);
}

export function writeConfig(config: Config, env: NodeJS.ProcessEnv): void {
  writePrivateJson(configPath(env), config);
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CliError(`${path} is not valid JSON: ${(error as Error).message}`, EXIT.usage);
  }
}
