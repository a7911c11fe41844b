/**
 * Moves a path from below one directory to below another. An editor and an agent on two machines have the workspace at
 * two different paths. Undefined for a path that is not below `from`.
 */
export function rebasePath(path: string, from: string, to: string): string | undefined {
  const base = withoutEnd(from);
  if (path === base || path === from) return to;
  const separator = base.includes("\\") && !base.includes("/") ? "\\" : "/";
  if (!path.startsWith(base + separator)) return undefined;
  const rest = path.slice(base.length + 1);
  // After a drive letter or in a share, paths have backslashes.
  const other = /^([A-Za-z]:)?\\|^[A-Za-z]:$/.test(to) ? "\\" : "/";
  return withoutEnd(to) + other + (separator === other ? rest : rest.replaceAll(separator, other));
}

function withoutEnd(directory: string): string {
  return directory.replace(/[/\\]$/, "");
}
