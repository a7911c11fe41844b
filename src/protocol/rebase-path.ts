/**
 * A path below one directory as the same place below another: an editor and an agent on two machines each have
 * the workspace at a path of their own. Undefined for a path that is not below it.
 */
export function moved(path: string, from: string, to: string): string | undefined {
  const base = withoutEnd(from);
  if (path === base || path === from) return to;
  const separator = base.includes("\\") && !base.includes("/") ? "\\" : "/";
  if (!path.startsWith(base + separator)) return undefined;
  const rest = path.slice(base.length + 1);
  // A drive letter or a share: there paths have backslashes.
  const other = /^([A-Za-z]:)?\\|^[A-Za-z]:$/.test(to) ? "\\" : "/";
  return withoutEnd(to) + other + (separator === other ? rest : rest.replaceAll(separator, other));
}

function withoutEnd(directory: string): string {
  return directory.replace(/[/\\]$/, "");
}
