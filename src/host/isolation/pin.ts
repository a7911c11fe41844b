import { type BigIntStats, closeSync, constants, fstatSync, openSync, readlinkSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";

/** A path that is held by an open directory: the path's own, or for a file the one that contains it. */
export type Pin = {
  isDirectory: boolean;
  id: string;
  parentId: string;
  /** The numbers of the file or directory now; undefined if a file is missing. Files may be replaced. */
  entry(): string | undefined;
  /** Where the held directory is now. After `deleted` the pin is closed. */
  place(): "there" | "moved" | "deleted";
};

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY;
/** The system's mark behind the path of a directory that exists no more. */
const DELETED = " (deleted)";

/** Undefined if nothing is there. */
export function pinPath(path: string): Pin | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) return undefined;
  const isDirectory = stats.isDirectory();
  const held = isDirectory ? path : dirname(path);
  const fd = open(held);
  // The user of the host cannot read it either, or it is gone again.
  if (fd === undefined) return undefined;
  const here = process.platform === "linux" ? `/proc/self/fd/${fd}` : held;
  const idOf = (at: string) => numbers(statSync(at, { throwIfNoEntry: false, bigint: true }));
  const own = numbers(fstatSync(fd, { bigint: true })) ?? "";
  const entry = isDirectory ? () => own : () => idOf(`${here}/${basename(path)}`);
  return {
    isDirectory,
    id: entry() ?? "",
    // Taken from the open directory: by name another directory could answer.
    parentId: isDirectory ? (idOf(`${here}/..`) ?? "") : own,
    entry,
    place: () => {
      if (process.platform !== "linux") return idOf(held) === own ? "there" : "moved";
      const now = readlinkSync(here);
      if (now === held) return "there";
      if (!now.endsWith(DELETED)) return "moved";
      closeSync(fd);
      return "deleted";
    },
  };
}

function open(directory: string): number | undefined {
  try {
    return openSync(directory, DIRECTORY);
  } catch {
    return undefined;
  }
}

function numbers(stats: BigIntStats | undefined): string | undefined {
  return stats && `${stats.dev}:${stats.ino}`;
}
