import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { ErrorCode } from "../../protocol/errors.ts";
import type { AgentUser } from "../isolation/agent-user.ts";
import type { HiddenPaths } from "../isolation/hidden-paths.ts";
import { errnoOf, isMissing } from "./errno.ts";
import { IoFault } from "./io-fault.ts";
import { NO_FOLLOW_NO_BLOCK, openDirectoryBeneath, openFileBeneath } from "./open-beneath.ts";
import { resolveInWorkspace } from "./workspace-path.ts";

const FILE_BYTES_MAX = 10 * 1024 * 1024;

export const readParams = z.object({
  path: z.string().min(1),
  /** The first line is 1. */
  line: z.int().nonnegative().nullish(),
  limit: z.int().nonnegative().nullish(),
});

export const writeParams = z.object({ path: z.string().min(1), content: z.string() });

/** The files that agents may use. */
export type AgentFiles = {
  /** The workspace's directory, a real path. */
  root: string;
  hidden: HiddenPaths;
  /** The user that agents run as, if it is not the host's. The host may do more than the user, so it checks. */
  user?: AgentUser | undefined;
};

export async function readTextFile(
  files: AgentFiles,
  params: z.infer<typeof readParams>,
): Promise<{ content: string }> {
  const text = await readWhole(files, params.path);
  return { content: excerpt(text, params.line ?? 1, params.limit ?? undefined) };
}

async function readWhole(files: AgentFiles, given: string): Promise<string> {
  const { root, user, hidden } = files;
  const path = await resolveVisible(files, given);
  const refuse = (directory: string) => refuseHidden(hidden, directory, given);
  const file = await openFileBeneath(root, path, constants.O_RDONLY, refuse).catch((error) => {
    throw isMissing(error) ? notFound(given) : notRegular(given, error);
  });
  try {
    const stats = await file.stat();
    if (hidden.isFile(stats)) throw notFound(given);
    if (!stats.isFile()) throw notRegular(given);
    if (user && !mayAccess(stats, user, READ)) throw forbidden(given);
    const bytes = await readAtMost(file, FILE_BYTES_MAX + 1);
    if (bytes.length > FILE_BYTES_MAX) {
      const limit = `the limit is ${FILE_BYTES_MAX} bytes`;
      throw new IoFault(ErrorCode.invalidParams, `${given} is too large to read: ${limit}`);
    }
    return bytes.toString("utf8");
  } finally {
    await file.close();
  }
}

/** `marks` are those in the content that may stand for secrets of the file. */
export async function writeTextFile(
  files: AgentFiles,
  params: z.infer<typeof writeParams>,
  marks: readonly string[] = [],
): Promise<Record<string, never>> {
  const { root, user, hidden } = files;
  if (marks.length > 0) await refuseLoss(files, params, marks);
  const path = await resolveVisible(files, params.path);
  if (path === root) throw notRegular(params.path);
  const directory = await openDirectoryBeneath(root, dirname(path), true, user);
  try {
    refuseHidden(hidden, directory.path, params.path);
    if (user && !mayAccess(await stat(directory.path), user, WRITE)) throw forbidden(params.path);
    await writeIn(directory.path, basename(path), params, user);
  } finally {
    await directory.close();
  }
  return {};
}

/**
 * An agent reads files without their secrets, so a mark that the agent writes would replace a secret. The value is not
 * put back: an agent could collect secrets by writing marks. A mark that the file has as plain text may stay.
 */
async function refuseLoss(
  files: AgentFiles,
  { path, content }: z.infer<typeof writeParams>,
  marks: readonly string[],
): Promise<void> {
  const old = await readWhole(files, path).catch((error) => {
    if (error instanceof IoFault && error.code === ErrorCode.notFound) return "";
    throw error;
  });
  const lost = marks.filter((mark) => countOf(mark, content) > countOf(mark, old));
  if (lost.length === 0) return;
  const message = `${path} is not written: ${lost.join(", ")} in the content stands for a secret that you cannot see, so the file would lose it. Change only the other lines, for example with sed or a patch in a terminal.`;
  throw new IoFault(ErrorCode.invalidParams, message, { reason: "redaction-mark", marks: lost });
}

function countOf(mark: string, text: string): number {
  return text.split(mark).length - 1;
}

/** Other readers never see a half-written file: the new file replaces the old one and takes over its mode. */
async function writeIn(
  directory: string,
  name: string,
  { path, content }: z.infer<typeof writeParams>,
  user: AgentUser | undefined,
) {
  // Opening the old file also checks its write permission, which a rename would ignore.
  const flags = constants.O_WRONLY | NO_FOLLOW_NO_BLOCK;
  const old = await open(join(directory, name), flags).catch((error) => {
    if (isMissing(error)) return undefined;
    throw notRegular(path, error);
  });
  try {
    const stats = await old?.stat();
    if (stats && !stats.isFile()) throw notRegular(path);
    if (stats && user && !mayAccess(stats, user, WRITE)) throw forbidden(path);
    try {
      await replace(directory, name, content, stats?.mode, user);
    } catch (error) {
      // A file may be writable although its directory is not, or it may be a mount point.
      if (!old || !REPLACING_FORBIDDEN.has(errnoOf(error) ?? "")) throw error;
      await old.truncate(0);
      await old.writeFile(content);
    }
  } finally {
    await old?.close();
  }
}

const REPLACING_FORBIDDEN: ReadonlySet<string> = new Set(["EACCES", "EPERM", "EBUSY", "EXDEV", "EROFS"]);

async function replace(
  directory: string,
  name: string,
  content: string,
  mode: number | undefined,
  user: AgentUser | undefined,
) {
  const temporary = join(directory, `.acp-edge-${randomUUID()}`);
  const file = await open(temporary, "wx");
  try {
    try {
      await file.writeFile(content);
      if (user) await file.chown(user.uid, user.gid);
      if (mode !== undefined) await file.chmod(mode & 0o777);
    } finally {
      await file.close();
    }
    await rename(temporary, join(directory, name));
  } catch (error) {
    await unlink(temporary).catch(() => {});
    throw error;
  }
}

/** Reads until the end rather than up to the reported size, because a file may grow while it is read. */
async function readAtMost(file: FileHandle, bytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for (let left = bytes; left > 0; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(left, CHUNK_BYTES)));
    if (bytesRead === 0) break;
    chunks.push(buffer.subarray(0, bytesRead));
    left -= bytesRead;
  }
  return Buffer.concat(chunks);
}

const CHUNK_BYTES = 256 * 1024;

/** Reading and writing, as the bits of a file's mode for all others. */
const READ = 0o4;
const WRITE = 0o2;

function mayAccess({ uid, gid, mode }: Stats, user: AgentUser, bit: number): boolean {
  const bits = uid === user.uid ? mode >> 6 : gid === user.gid ? mode >> 3 : mode;
  return (bits & bit) !== 0;
}

/** A hidden file is missing for the agent's own processes, and so it is here. */
async function resolveVisible({ root, hidden }: AgentFiles, path: string): Promise<string> {
  const resolved = await resolveInWorkspace(root, path);
  if (hidden.has(resolved)) throw notFound(path);
  return resolved;
}

/** An agent may have renamed a directory above a hidden one, so its path alone does not tell. */
function refuseHidden(hidden: HiddenPaths, directory: string, path: string): void {
  if (hidden.holds(directory)) throw notFound(path);
}

function forbidden(path: string): IoFault {
  return new IoFault(ErrorCode.invalidParams, `${path}: permission denied`);
}

function notFound(path: string): IoFault {
  return new IoFault(ErrorCode.notFound, `${path}: no such file`, { path });
}

/** The fault for a path that is not a regular file. An error with any other cause is returned unchanged. */
function notRegular(path: string, error?: unknown): unknown {
  const code = errnoOf(error) ?? "ELOOP";
  if (!["ELOOP", "EISDIR", "ENXIO", "ENODEV"].includes(code)) return error;
  return new IoFault(ErrorCode.invalidParams, `${path} is not a regular file`);
}

/** At most `limit` lines starting with `line`, without a line break after the last one. */
function excerpt(text: string, line: number, limit: number | undefined): string {
  if (line <= 1 && limit === undefined) return text;
  const start = Math.max(0, line - 1);
  return text
    .split("\n")
    .slice(start, limit === undefined ? undefined : start + limit)
    .join("\n");
}
