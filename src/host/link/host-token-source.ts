import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { decodeJwt } from "jose";

/** A token that expires sooner than this counts as expired. */
const MARGIN_MS = 60_000;
const COMMAND_MS = 30_000;

export type TokenOrigin = {
  token?: string | undefined;
  file?: string | undefined;
  command?: string | undefined;
};

/**
 * A function that returns the host's token for each new socket: the token as given, the current content of the file,
 * or the last output of the command. The command blocks the process while it runs, but it runs only once in the life
 * of a token. The first origin that names a token counts. Throws an error for the user if there is none.
 */
export function hostTokenSource(...origins: readonly TokenOrigin[]): (refused?: string) => string {
  const origin = origins.find(({ token, file, command }) => token || file || command);
  const { token, file, command } = origin ?? {};
  if (token) return () => token;
  if (file)
    return reread(
      () => readFileSync(file, "utf8"),
      () => false,
    );
  if (command) return reread(() => run(command), isFresh);
  throw new Error("ACP_EDGE_HOST_TOKEN is missing");
}

function run(command: string): string {
  return execFileSync("/bin/sh", ["-c", command], {
    encoding: "utf8",
    timeout: COMMAND_MS,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** Reads the token again when it is refused or not good any more. If that fails, the previous token is used. */
function reread(read: () => string, isGood: (token: string) => boolean): (refused?: string) => string {
  let token = read().trim();
  if (token === "") throw new Error("the host token is empty");
  return (refused) => {
    if (token !== refused && isGood(token)) return token;
    try {
      token = read().trim() || token;
    } catch {}
    return token;
  };
}

function isFresh(token: string): boolean {
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined || exp * 1000 > Date.now() + MARGIN_MS;
  } catch {
    return true;
  }
}
