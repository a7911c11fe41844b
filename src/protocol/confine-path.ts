/**
 * The path below the directory `to` that stands for `path` below the directory `from`. An agent and a client on two
 * machines have the workspace at two different directories. Undefined for a path that leaves `from`, or that the
 * client's machine could read as another path: the client's files outside its directory are out of an agent's reach.
 *
 * A path is resolved as text, as POSIX does: `.` and empty segments vanish, `..` removes the segment before it. A
 * relative path is below `from`.
 */
export function confinePath(path: unknown, from: string, to: string): string | undefined {
  if (typeof path !== "string" || path === "" || path.includes("\0")) return undefined;
  const root = readPath(from);
  const given = readPath(path, root?.isWindows);
  const client = readPath(to);
  if (!root?.isAbsolute || !given || !client?.isAbsolute) return undefined;
  const segments = given.isAbsolute ? below(root, given) : resolve(given);
  if (!segments?.every((segment) => isPlain(segment, client.isWindows))) return undefined;
  if (segments.length === 0) return to;
  const separator = client.isWindows && !to.includes("/") ? "\\" : "/";
  return to.replace(/[/\\]$/, "") + separator + segments.join(separator);
}

type ReadPath = {
  isWindows: boolean;
  isAbsolute: boolean;
  /** The drive, or `""` for a POSIX path. A path on a network share has its server and share as segments. */
  drive: string;
  segments: string[];
};

/** A text with a drive letter or a leading backslash is a path of Windows, and so is any path below such a root. */
function readPath(text: string, isWindows = /^(?:[A-Za-z]:|\\)/.test(text)): ReadPath | undefined {
  if (!isWindows) return { isWindows, isAbsolute: text[0] === "/", drive: "", segments: text.split("/") };
  const [, drive = "", rest = ""] = /^([A-Za-z]:)?(.*)$/s.exec(text) ?? [];
  const isAbsolute = /^[/\\]/.test(rest) || (drive !== "" && rest === "");
  // `C:name` is relative to a directory that only the machine itself knows.
  if (drive !== "" && !isAbsolute) return undefined;
  return { isWindows, isAbsolute, drive: drive.toLowerCase(), segments: rest.split(/[/\\]/) };
}

/** The segments of a path below the root; undefined if the path is not below it. */
function below(root: ReadPath, given: ReadPath): string[] | undefined {
  const base = resolve(root);
  const all = resolve(given);
  const isBelow = given.drive === root.drive && base?.every((segment, i) => segment === all?.[i]);
  return isBelow ? all?.slice(base?.length) : undefined;
}

/** Resolves `.` and `..`. At the root of a file system `..` stays there; a relative path must not begin with it. */
function resolve({ segments, isAbsolute }: ReadPath): string[] | undefined {
  const resolved: string[] = [];
  for (const segment of segments) {
    if (segment === "" || segment === ".") continue;
    if (segment !== "..") resolved.push(segment);
    else if (resolved.pop() === undefined && !isAbsolute) return undefined;
  }
  return resolved;
}

/**
 * Whether a segment names the same file on the client's machine. A backslash could separate segments there. Windows
 * has streams behind a colon, removes dots and spaces at the end of a name, and has devices in every directory.
 */
function isPlain(segment: string, isWindows: boolean): boolean {
  if (segment.includes("\\")) return false;
  if (!isWindows) return true;
  return !/[:<>"|?*\p{Cc}]|[. ]$/u.test(segment) && !DEVICE.test(segment);
}

const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])\s*(?:\.|$)/i;
