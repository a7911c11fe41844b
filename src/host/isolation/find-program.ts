import { accessSync, constants } from "node:fs";
import { delimiter, join, resolve } from "node:path";

/** The absolute path of a program. As in a shell, a name with a slash is relative to `cwd`. */
export function findProgram(name: string, path: string | undefined, cwd = "/"): string | undefined {
  const places = (path ?? "").split(delimiter).filter((directory) => directory.startsWith("/"));
  const candidates = name.includes("/")
    ? [resolve(cwd, name)]
    : places.map((directory) => join(directory, name));
  return candidates.find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
