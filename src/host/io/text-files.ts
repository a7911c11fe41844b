import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { ErrorCode } from "../../protocol/errors.ts";
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

export async function readTextFile(
  root: string,
  params: z.infer<typeof readParams>,
): Promise<{ content: string }> {
  const path = await resolveInWorkspace(root, params.path);
  const file = await openFileBeneath(root, path, constants.O_RDONLY).catch((error) => {
    throw isMissing(error) ? notFound(params.path) : notRegular(params.path, error);
  });
  try {
    if (!(await file.stat()).isFile()) throw notRegular(params.path);
    const bytes = await readAtMost(file, FILE_BYTES_MAX + 1);
    if (bytes.length > FILE_BYTES_MAX) {
      const limit = `the limit is ${FILE_BYTES_MAX} bytes`;
      throw new IoFault(ErrorCode.invalidParams, `${params.path} is too large to read: ${limit}`);
    }
    return { content: excerpt(bytes.toString("utf8"), params.line ?? 1, params.limit ?? undefined) };
  } finally {
    await file.close();
  }
}

export async function writeTextFile(
  root: string,
  params: z.infer<typeof writeParams>,
): Promise<Record<string, never>> {
  const path = await resolveInWorkspace(root, params.path);
  if (path === root) throw notRegular(params.path);
  const directory = await openDirectoryBeneath(root, dirname(path), true);
  try {
    await writeIn(directory.path, basename(path), params);
  } finally {
    await directory.close();
  }
  return {};
}

/** Other readers never see a half-written file: the new file replaces the old one and takes over its mode. */
async function writeIn(directory: string, name: string, { path, content }: z.infer<typeof writeParams>) {
  // Opening the old file also checks its write permission, which a rename would ignore.
  const flags = constants.O_WRONLY | NO_FOLLOW_NO_BLOCK;
  const old = await open(join(directory, name), flags).catch((error) => {
    if (isMissing(error)) return undefined;
    throw notRegular(path, error);
  });
  try {
    const stats = await old?.stat();
    if (stats && !stats.isFile()) throw notRegular(path);
    try {
      await replace(directory, name, content, stats?.mode);
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

async function replace(directory: string, name: string, content: string, mode: number | undefined) {
  const temporary = join(directory, `.acp-edge-${randomUUID()}`);
  const file = await open(temporary, "wx");
  try {
    try {
      await file.writeFile(content);
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
