import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { CliError, EXIT } from "../cli-error.ts";
import { configPath } from "./config-file.ts";
import { writePrivateJson } from "./private-json.ts";

/** A login at an OpenID provider, as `acp-edge login` stores it. */
const LOGIN = z.strictObject({
  issuer: z.url(),
  clientId: z.string(),
  /** The token of the provider that the gateway reads. */
  use: z.enum(["id", "access"]),
  token: z.string(),
  /** Absent: the provider gives no further tokens without another login. */
  refreshToken: z.string().optional(),
});

export type Login = z.infer<typeof LOGIN>;

/** The file of a profile's login. It changes with each renewal, so it is not part of the configuration file. */
export function loginPath(profile: string, env: NodeJS.ProcessEnv): string {
  return join(dirname(configPath(env)), "logins", `${encodeURIComponent(profile)}.json`);
}

export function readLogin(path: string): Login {
  try {
    return LOGIN.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    throw new CliError(`${path} contains no login: use \`acp-edge login\``, EXIT.unauthorized);
  }
}

export function writeLogin(path: string, login: Login): void {
  writePrivateJson(path, login);
}
