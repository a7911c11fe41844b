import { constants } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { ErrorCode } from "../../protocol/errors.ts";
import { confine, isMissing } from "./confine.ts";
import { Fault } from "./fault.ts";

const FILE_BYTES = 10 * 1024 * 1024;

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
  const place = await confine(root, params.path);
  // Non-blocking, or opening a named pipe would wait for somebody to write to it.
  const file = await open(place, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(
    (error) => {
      if (isMissing(error))
        throw new Fault(ErrorCode.notFound, `${params.path}: no such file`, { path: params.path });
      throw error;
    },
  );
  try {
    const stats = await file.stat();
    if (!stats.isFile()) throw new Fault(ErrorCode.invalidParams, `${params.path} is not a regular file`);
    if (stats.size > FILE_BYTES) {
      const sizes = `${stats.size} bytes, the limit is ${FILE_BYTES}`;
      throw new Fault(ErrorCode.invalidParams, `${params.path} is too large to read: ${sizes}`);
    }
    const text = await file.readFile("utf8");
    return { content: excerpt(text, params.line ?? 1, params.limit ?? undefined) };
  } finally {
    await file.close();
  }
}

export async function writeTextFile(
  root: string,
  params: z.infer<typeof writeParams>,
): Promise<Record<string, never>> {
  const place = await confine(root, params.path);
  await mkdir(dirname(place), { recursive: true });
  const flags =
    constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await open(place, flags);
  try {
    await file.writeFile(params.content);
  } finally {
    await file.close();
  }
  return {};
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
