import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { decodeJwt } from "jose";

/** A token with less than this left is as good as expired. */
const MARGIN_MS = 60_000;
const COMMAND_MS = 30_000;

export type TokenOrigin = {
  token?: string | undefined;
  file?: string | undefined;
  command?: string | undefined;
};

/**
 * Gives the host's token, whenever it dials: as it was given, as the file has it then, or as the command printed
 * it last. Waiting for the command holds up everything here, but it happens once in a token's life.
 * The first origin that has one counts. Throws an error with a message for the person at the keyboard if there is none to begin with.
 */
export function hostTokenSource(...origins: readonly TokenOrigin[]): (refused?: string) => string {
  const origin = origins.find((one) => one.token || one.file || one.command);
  const { token, file, command } = origin ?? {};
  if (token) return () => token;
  if (file)
    return lasting(
      () => readFileSync(file, "utf8"),
      () => false,
    );
  if (command) return lasting(() => run(command), isFresh);
  throw new Error("ACP_EDGE_HOST_TOKEN is missing");
}

function run(command: string): string {
  return execFileSync("/bin/sh", ["-c", command], {
    encoding: "utf8",
    timeout: COMMAND_MS,
    stdio: ["ignore", "pipe", "inherit"],
  });
}

/** When a later reading fails the token from before is still worth a try: the gateway will say. */
function lasting(read: () => string, isGood: (token: string) => boolean): (refused?: string) => string {
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
