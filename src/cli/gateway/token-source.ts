import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { decodeJwt, type JWTPayload } from "jose";
import { CliError, describeError, EXIT } from "../cli-error.ts";
import type { Profile } from "./config-file.ts";
import { readLogin } from "./login-file.ts";

/** A token that expires sooner than this counts as expired. */
const MARGIN_SECONDS = 30;
/** A token command may open a browser for a login. */
const COMMAND_MS = 5 * 60 * 1000;

/**
 * A literal token, a file with one, a command that prints one and runs again when a fresh token is needed, or a login at
 * an OpenID provider that renews its token.
 */
export class TokenSource {
  readonly #from: Pick<Profile, SourceKey>;
  #printed: Promise<string> | undefined;
  #renewal: Promise<string> | undefined;

  constructor(from: { [key in SourceKey]?: string | undefined }) {
    this.#from = from as Profile;
  }

  get kind(): "token" | "token file" | "token command" | "login" {
    if (this.#from.token) return "token";
    if (this.#from.tokenFile) return "token file";
    return this.#from.loginFile ? "login" : "token command";
  }

  async get({ fresh = false } = {}): Promise<string> {
    const { token, tokenFile, tokenCommand, loginFile } = this.#from;
    if (token) return token;
    if (tokenFile) return readTokenFile(tokenFile);
    if (loginFile) return this.#loggedIn(loginFile, fresh);
    if (!tokenCommand)
      throw new CliError(
        "no token is configured: use `acp-edge login`, ACP_EDGE_TOKEN, --token-file or --token-command",
        EXIT.unauthorized,
      );
    if (fresh || !this.#printed || isStale(await this.#printed)) this.#printed = this.#run(tokenCommand);
    return this.#printed;
  }

  /** Callers at the same time share one renewal, because a refresh token may work only once. */
  async #loggedIn(path: string, fresh: boolean): Promise<string> {
    const { token } = readLogin(path);
    if (!fresh && !isStale(token)) return token;
    this.#renewal ??= import("./openid.ts")
      .then(({ renewLogin }) => renewLogin(path, token))
      .finally(() => {
        this.#renewal = undefined;
      });
    return this.#renewal;
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

type SourceKey = "token" | "tokenCommand" | "tokenFile" | "loginFile";

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
