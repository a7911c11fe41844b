import { constants } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { ErrorCode } from "../../protocol/errors.ts";
import { errnoOf, isMissing } from "./errno.ts";
import { IoFault } from "./io-fault.ts";

/**
 * A directory of the workspace that is held open. An operation under `path` acts on that very directory, even if the
 * directory's name leads elsewhere by then.
 */
export type OpenDirectory = { path: string; close(): Promise<void> };

type Owner = { uid: number; gid: number };

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/** Flags that never follow a link and never block: opening a named pipe would wait for its other end. */
export const NO_FOLLOW_NO_BLOCK = constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Opens a directory step by step from `root`. A symbolic link that appears on the way after the path was checked is
 * not followed. `create` makes missing directories, which belong to `owner` if one is given.
 */
export async function openDirectoryBeneath(
  root: string,
  directory: string,
  create: boolean,
  owner?: Owner | undefined,
): Promise<OpenDirectory> {
  // Other systems have no path for a file descriptor, so the check of the path has to suffice there.
  if (process.platform !== "linux") {
    if (create) await mkdir(directory, { recursive: true });
    return { path: directory, close: async () => {} };
  }
  let current = await open(root, DIRECTORY);
  for (const name of relative(root, directory).split(sep).filter(Boolean)) {
    const parent = current;
    try {
      current = await openStep(join(pathOf(parent), name), create, owner);
    } catch (error) {
      // A link that was not followed fails with this code too. For a reader it means that there is no such file.
      if (create && errnoOf(error) === "ENOTDIR")
        throw new IoFault(ErrorCode.invalidParams, `${directory}: ${name} is not a directory`);
      throw error;
    } finally {
      await parent.close();
    }
  }
  return { path: pathOf(current), close: () => current.close() };
}

/** Opens a file of the workspace, or the workspace's root itself. `check` may refuse the directory by throwing. */
export async function openFileBeneath(
  root: string,
  path: string,
  flags: number,
  check?: (directory: string) => void,
): Promise<FileHandle> {
  const directory = await openDirectoryBeneath(root, path === root ? root : dirname(path), false);
  try {
    check?.(directory.path);
    const name = path === root ? "." : basename(path);
    return await open(join(directory.path, name), flags | NO_FOLLOW_NO_BLOCK);
  } finally {
    await directory.close();
  }
}

async function openStep(path: string, create: boolean, owner: Owner | undefined): Promise<FileHandle> {
  try {
    return await open(path, DIRECTORY);
  } catch (error) {
    if (!create || !isMissing(error)) throw error;
  }
  const isMade = await mkdir(path).then(
    () => true,
    (error) => {
      if (errnoOf(error) !== "EEXIST") throw error;
      return false;
    },
  );
  const directory = await open(path, DIRECTORY);
  if (isMade && owner) await directory.chown(owner.uid, owner.gid);
  return directory;
}

function pathOf({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}
