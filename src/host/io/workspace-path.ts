import { lstat, realpath } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { ErrorCode } from "../../protocol/errors.ts";
import { IoFault } from "./io-fault.ts";

/**
 * The real place of `path` in the workspace, or a fault if it lies outside. The path need not exist yet;
 * the nearest ancestor that does decides. This keeps an agent to the workspace it was given; it is no
 * sandbox, for the agent runs as the same user and could open the file itself.
 *
 * `root` must be a real path.
 */
export async function resolveInWorkspace(root: string, path: string): Promise<string> {
  if (path.includes("\0"))
    throw new IoFault(ErrorCode.invalidParams, "a path cannot contain a null character");
  const place = await realPlace(resolve(root, path));
  const fromRoot = relative(root, place);
  if (fromRoot === ".." || fromRoot.startsWith(`..${sep}`)) {
    throw new IoFault(ErrorCode.invalidParams, `${path} is outside the workspace ${root}`);
  }
  return place;
}

async function realPlace(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  // Something is there and yet leads nowhere: writing to it would create what it points at.
  if (await isSymbolicLink(path)) {
    throw new IoFault(ErrorCode.invalidParams, `${path} is a symbolic link to nothing`);
  }
  return join(await realPlace(dirname(path)), basename(path));
}

async function isSymbolicLink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch {
    return false;
  }
}

export function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ENOTDIR";
}
