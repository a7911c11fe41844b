import { constants } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { ErrorCode } from "../../protocol/errors.ts";
import { IoFault } from "./io-fault.ts";
import { isMissing } from "./workspace-path.ts";

/**
 * A directory of the workspace that is held open. What is done under `path` is done in that very directory,
 * whatever its name leads to by then.
 */
export type OpenDirectory = { path: string; close(): Promise<void> };

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Holds a directory whose path has no symbolic link in it, going there step by step: a link that somebody puts in
 * the way between the check of the path and its use is not followed. Missing directories are made if so wanted.
 */
export async function openDirectoryBeneath(
  root: string,
  directory: string,
  make: boolean,
): Promise<OpenDirectory> {
  // Elsewhere a file descriptor has no path, and what the check said has to do.
  if (process.platform !== "linux") {
    if (make) await mkdir(directory, { recursive: true });
    return { path: directory, close: async () => {} };
  }
  let held = await open(root, DIRECTORY);
  for (const name of relative(root, directory).split(sep).filter(Boolean)) {
    const before = held;
    try {
      held = await step(join(pathOf(before), name), make);
    } catch (error) {
      // So is a link called that was not followed. Who only reads has found nothing there.
      if (make && codeOf(error) === "ENOTDIR")
        throw new IoFault(ErrorCode.invalidParams, `${directory}: ${name} is not a directory`);
      throw error;
    } finally {
      await before.close();
    }
  }
  return { path: pathOf(held), close: () => held.close() };
}

async function step(path: string, make: boolean): Promise<FileHandle> {
  try {
    return await open(path, DIRECTORY);
  } catch (error) {
    if (!make || !isMissing(error)) throw error;
  }
  await mkdir(path).catch((error) => {
    if (codeOf(error) !== "EEXIST") throw error;
  });
  return open(path, DIRECTORY);
}

function pathOf({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
