import { realpathSync, type Stats, statSync } from "node:fs";
import { relative, sep } from "node:path";
import { type Pin, pinPath } from "./pin.ts";

/** A hidden path that exists, and the numbers by which a process recognizes it. */
export type HiddenEntry = {
  path: string;
  isDirectory: boolean;
  isAroundRoot: boolean;
  /** Device and inode of the entry and of the directory that contains it, as `stat -c %d:%i` prints them. */
  id: string;
  parentId: string;
};

/** A hidden file or directory is not where the host would cover it, so no process may start. */
export class HiddenPathMoved extends Error {}

/** Files and directories of the host that agents must not see: its state, its token, the tokens of its user. */
export class HiddenPaths {
  readonly #root: string;
  readonly #listed: () => readonly string[];
  /** Every path that was ever listed, and where it led then: an agent could make it a link to a place of its choice. */
  readonly #known = new Map<string, string>();
  #paths: readonly string[] = [];
  readonly #rootId: string | undefined;
  /** Held from the first sight of each path: an agent that renames a directory above it cannot make the host forget. */
  readonly #pins = new Map<string, Pin>();
  #revision = 0;

  /**
   * `root` is the workspace's directory, a real path. It stays visible, even below a hidden directory. `listed` is asked
   * again for each process and each file, because paths may be added while the host runs. `known` has the numbers of
   * paths that an earlier process saw. Throws `HiddenPathMoved` if another file is there now.
   */
  constructor(
    root: string,
    listed: readonly string[] | (() => readonly string[]) = [],
    known: ReadonlyMap<string, string> = new Map(),
  ) {
    this.#root = root;
    this.#listed = typeof listed === "function" ? listed : () => listed;
    const rootStats = statSync(root, { throwIfNoEntry: false, bigint: true });
    this.#rootId = rootStats && `${rootStats.dev}:${rootStats.ino}`;
    this.#update();
    for (const [path, id] of known) {
      const pin = this.#pins.get(realPath(path)) ?? pinPath(path);
      if (pin?.id !== id) throw new HiddenPathMoved(movedMessage(path));
    }
  }

  /**
   * The hidden paths that exist now. Directories around the workspace come first. Throws `HiddenPathMoved` if a path
   * that the host has seen is elsewhere now.
   */
  get existing(): HiddenEntry[] {
    this.#update();
    return this.#paths
      .flatMap((path) => {
        const pin = this.#pin(path);
        const entry = pin?.entry();
        if (!pin || !entry) return [];
        const { isDirectory, parentId } = pin;
        return { path, isDirectory, parentId, id: entry, isAroundRoot: isBeneath(this.#root, path) };
      })
      .sort((a, b) => Number(b.isAroundRoot) - Number(a.isAroundRoot) || a.path.length - b.path.length);
  }

  /** Grows when there is something to hide that processes which started before may see. */
  get revision(): number {
    this.#update();
    for (const path of this.#paths) if (!this.#pins.has(path)) this.#pin(path);
    return this.#revision;
  }

  get all(): readonly string[] {
    return this.#paths;
  }

  /** Nothing is hidden, because the permissions of another user suffice. */
  without(): HiddenPaths {
    return new HiddenPaths(this.#root);
  }

  /** Whether a real path inside the workspace is hidden. */
  has(path: string): boolean {
    this.#update();
    return this.#paths.some((hidden) => isBeneath(path, hidden) && !isBeneath(this.#root, hidden));
  }

  /** Whether an open directory is hidden or below a hidden directory, wherever that has been moved. */
  holds(directory: string): boolean {
    this.#update();
    const hidden = new Set([...this.#pins.values()].filter((pin) => pin.isDirectory).map(({ id }) => id));
    if (hidden.size === 0) return false;
    for (let [at, last] = [`${directory}/.`, ""]; ; at = `${at}/..`) {
      const { dev, ino } = statSync(at, { bigint: true });
      const id = `${dev}:${ino}`;
      if (id === this.#rootId || id === last) return false;
      if (hidden.has(id)) return true;
      last = id;
    }
  }

  /** Whether an open file is a hidden file, wherever that has been moved. */
  isFile({ dev, ino }: Pick<Stats, "dev" | "ino">): boolean {
    return [...this.#pins.values()].some((pin) => pin.entry() === `${dev}:${ino}`);
  }

  /** Adds paths that were listed since the last look. A path that is listed no more stays hidden. */
  #update(): void {
    const root = this.#root;
    const added = this.#listed().filter((path) => !this.#known.has(path));
    if (added.length === 0) return;
    for (const path of added) this.#known.set(path, realPath(path));
    const all = [...new Set(this.#known.values())].filter((path) => path !== root);
    // A path inside a hidden directory is hidden with it, unless the workspace is between the two.
    const covers = (outer: string, path: string) =>
      outer !== path && isBeneath(path, outer) && !(isBeneath(root, outer) && isBeneath(path, root));
    this.#paths = all.filter((path) => !all.some((outer) => covers(outer, path)));
    for (const path of this.#paths) if (!this.#pins.has(path)) this.#pin(path);
  }

  #pin(path: string): Pin | undefined {
    const known = this.#pins.get(path);
    const place = known?.place() ?? "deleted";
    if (place === "moved") throw new HiddenPathMoved(movedMessage(path));
    if (known && place === "there") return known;
    const pin = pinPath(path);
    if (pin) {
      this.#pins.set(path, pin);
      this.#revision += 1;
    } else this.#pins.delete(path);
    return pin;
  }
}

function movedMessage(path: string): string {
  return `${path} must stay hidden from agents, but it or a directory above it was moved or replaced: move it back, because a host that starts anew does not hide it elsewhere`;
}

function isBeneath(path: string, directory: string): boolean {
  const way = relative(directory, path);
  return way !== ".." && !way.startsWith(`..${sep}`);
}

/** The path itself, if nothing is there yet. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
