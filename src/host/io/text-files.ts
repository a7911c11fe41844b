import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rename, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { ErrorCode } from "../../protocol/errors.ts";
import { IoFault } from "./io-fault.ts";
import { openDirectoryBeneath } from "./open-beneath.ts";
import { isMissing, resolveInWorkspace } from "./workspace-path.ts";

const FILE_BYTES = 10 * 1024 * 1024;

/** Never through a link, and never waiting: opening a named pipe would wait for somebody at its other end. */
const SAFELY = constants.O_NOFOLLOW | constants.O_NONBLOCK;

export const readParams = z.object({
  path: z.string().min(1),
  /** Counted from 1. */
  line: z.int().nonnegative().nullish(),
  limit: z.int().nonnegative().nullish(),
});

export const writeParams = z.object({ path: z.string().min(1), content: z.string() });

export async function readTextFile(
  root: string,
  params: z.infer<typeof readParams>,
): Promise<{ content: string }> {
  const place = await resolveInWorkspace(root, params.path);
  const file = await openBeneath(root, place, constants.O_RDONLY).catch((error) => {
    throw isMissing(error) ? notFound(params.path) : notRegular(params.path, error);
  });
  try {
    if (!(await file.stat()).isFile()) throw notRegular(params.path);
    const bytes = await readAtMost(file, FILE_BYTES + 1);
    if (bytes.length > FILE_BYTES) {
      const limit = `the limit is ${FILE_BYTES} bytes`;
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
  const place = await resolveInWorkspace(root, params.path);
  if (place === root) throw notRegular(params.path);
  const directory = await openDirectoryBeneath(root, dirname(place), true);
  try {
    await writeIn(directory.path, basename(place), params);
  } finally {
    await directory.close();
  }
  return {};
}

async function openBeneath(root: string, place: string, flags: number): Promise<FileHandle> {
  const directory = await openDirectoryBeneath(root, place === root ? root : dirname(place), false);
  try {
    return await open(join(directory.path, place === root ? "." : basename(place)), flags | SAFELY);
  } finally {
    await directory.close();
  }
}

/** A file that others read is never half written: the new one takes the place of the old, and its mode. */
async function writeIn(directory: string, name: string, { path, content }: z.infer<typeof writeParams>) {
  const place = join(directory, name);
  // Also says whether it may be written at all, which replacing it would not ask.
  const old = await open(place, constants.O_WRONLY | SAFELY).catch((error) => {
    if (isMissing(error)) return undefined;
    throw notRegular(path, error);
  });
  try {
    const stats = await old?.stat();
    if (stats && !stats.isFile()) throw notRegular(path);
    try {
      await replace(directory, name, content, stats?.mode);
    } catch (error) {
      // A file may be writable where its directory is not, or be mounted by itself.
      if (!old || !REPLACING_FORBIDDEN.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
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

/** Its size is no promise: a file may grow while it is read. */
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

/** What the system says where something else than a file is in the way; any other error as it is. */
function notRegular(path: string, error?: unknown): unknown {
  const code = (error as NodeJS.ErrnoException | undefined)?.code ?? "ELOOP";
  if (!["ELOOP", "EISDIR", "ENXIO", "ENODEV"].includes(code)) return error;
  return new IoFault(ErrorCode.invalidParams, `${path} is not a regular file`);
}

/** At most `limit` lines from the given one on, without a line break after the last of them. */
function excerpt(text: string, line: number, limit: number | undefined): string {
  if (line <= 1 && limit === undefined) return text;
  const start = Math.max(0, line - 1);
  return text
    .split("\n")
    .slice(start, limit === undefined ? undefined : start + limit)
    .join("\n");
}
