import { lstat, realpath } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { ErrorCode } from "../../protocol/errors.ts";
import { isMissing } from "./errno.ts";
import { IoFault } from "./io-fault.ts";

/**
 * The real path of `path` in the workspace; throws if it lies outside. The path need not exist yet: its nearest
 * existing ancestor decides. This confines an agent to its workspace, but it is not a sandbox, because the agent runs
 * as the same user and could open the file itself.
 *
 * `root` must be a real path.
 */
export async function resolveInWorkspace(root: string, path: string): Promise<string> {
  if (path.includes("\0"))
    throw new IoFault(ErrorCode.invalidParams, "a path cannot contain a null character");
  const resolved = await realPathOf(resolve(root, path));
  const fromRoot = relative(root, resolved);
  if (fromRoot === ".." || fromRoot.startsWith(`..${sep}`)) {
    throw new IoFault(ErrorCode.invalidParams, `${path} is outside the workspace ${root}`);
  }
  return resolved;
}

async function realPathOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  // Writing to a dangling link would create its target.
  if (await isSymbolicLink(path)) {
    throw new IoFault(ErrorCode.invalidParams, `${path} is a symbolic link to nothing`);
  }
  return join(await realPathOf(dirname(path)), basename(path));
}

async function isSymbolicLink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch {
    return false;
  }
}
