import { execFileSync } from "node:child_process";
import { closeSync, readFileSync } from "node:fs";
import { decodeJwt } from "jose";

/** A token that expires sooner than this counts as expired. */
const MARGIN_MS = 60_000;
const COMMAND_MS = 30_000;

export type TokenOrigin = {
  token?: string | undefined;
  /** The number of an open descriptor that the token is read from once. */
  fd?: string | undefined;
  file?: string | undefined;
  command?: string | undefined;
};

/**
 * A function that returns the host's token for each new socket: the token as given, the content of the descriptor, the
 * current content of the file, or the last output of the command. The command blocks the process while it runs, but it runs only once in the life
 * of a token. The first origin that names a token counts. Throws an error for the user if there is none.
 */
export function hostTokenSource(...origins: readonly TokenOrigin[]): (refused?: string) => string {
  const origin = origins.find(({ token, fd, file, command }) => token || fd || file || command);
  const { token, fd, file, command } = origin ?? {};
  if (token) return () => token;
  if (fd) return always(readDescriptor(fd));
  if (file)
    return reread(
      () => readFileSync(file, "utf8"),
      () => false,
    );
  if (command) return reread(() => run(command), isFresh);
  throw new Error("ACP_EDGE_HOST_TOKEN is missing");
}

/** The descriptor is closed, so that no process of the host inherits it. */
function readDescriptor(fd: string): string {
  const number = Number(fd);
  if (!/^\d+$/.test(fd) || number < 3)
    throw new Error("--token-fd must be the number of an open descriptor, 3 or more");
  try {
    return readFileSync(number, "utf8").trim();
  } finally {
    closeSync(number);
  }
}

function always(token: string): () => string {
  if (token === "") throw new Error("the host token is empty");
  return () => token;
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
