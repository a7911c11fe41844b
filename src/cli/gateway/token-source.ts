import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { decodeJwt, type JWTPayload } from "jose";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import type { Profile } from "./config-file.ts";

/** A token that expires sooner than this counts as expired. */
const MARGIN_SECONDS = 30;
/** A token command may open a browser for a login. */
const COMMAND_MS = 5 * 60 * 1000;

/** A literal token, a file with one, or a command that prints one and runs again when a fresh token is needed. */
export class TokenSource {
  readonly #from: Pick<Profile, "token" | "tokenCommand" | "tokenFile">;
  #printed: Promise<string> | undefined;

  constructor(from: { [key in "token" | "tokenCommand" | "tokenFile"]?: string | undefined }) {
    this.#from = from as Profile;
  }

  get kind(): "token" | "token file" | "token command" {
    if (this.#from.token) return "token";
    return this.#from.tokenFile ? "token file" : "token command";
  }

  async get({ fresh = false } = {}): Promise<string> {
    const { token, tokenFile, tokenCommand } = this.#from;
    if (token) return token;
    if (tokenFile) return readTokenFile(tokenFile);
    if (!tokenCommand)
      throw new CliError(
        "no token is configured: use `acp-edge login`, ACP_EDGE_TOKEN, --token-file or --token-command",
        EXIT.unauthorized,
      );
    if (fresh || !this.#printed || isStale(await this.#printed)) this.#printed = this.#run(tokenCommand);
    return this.#printed;
  }

  /** A failure is not remembered, so that the next call runs the command again. */
  async #run(command: string): Promise<string> {
    try {
      return await runTokenCommand(command);
    } catch (error) {
      this.#printed = undefined;
      throw error;
    }
  }
}

/** The claims of a token, unverified; undefined if the token is not a JWT. */
export function claimsOf(token: string): JWTPayload | undefined {
  try {
    return decodeJwt(token);
  } catch {
    return undefined;
  }
}

function isStale(token: string): boolean {
  const exp = claimsOf(token)?.exp;
  return exp !== undefined && exp < Date.now() / 1000 + MARGIN_SECONDS;
}

async function readTokenFile(path: string): Promise<string> {
  try {
    return checked((await readFile(path, "utf8")).trim(), path);
  } catch (error) {
    if (error instanceof CliError) throw error;
    throw new CliError(`the token file cannot be read: ${describeError(error)}`, EXIT.unauthorized);
  }
}

/** The command does not inherit stdin, which belongs to the editor under `connect`. */
async function runTokenCommand(command: string): Promise<string> {
  const running = promisify(execFile)("/bin/sh", ["-c", command], { timeout: COMMAND_MS });
  running.child.stdin?.end();
  running.child.stderr?.pipe(process.stderr, { end: false });
  try {
    return checked((await running).stdout.trim(), "the token command");
  } catch (error) {
    if (error instanceof CliError) throw error;
    const { code, signal } = error as { code?: number | string; signal?: string };
    const how = signal ? `was ended by ${signal}` : `ended with code ${code}`;
    throw new CliError(`the token command ${how}: ${command}`, EXIT.unauthorized);
  }
}

function checked(token: string, origin: string): string {
  if (token === "" || /\s/.test(token))
    throw new CliError(`${origin} contains no token, or more than one word`, EXIT.unauthorized);
  return token;
}
