/** Paths and the URIs of files, for peers that use the one where the other is meant. */

/** The path a `file://` URI of this machine names; undefined for anything else. */
export function pathOf(uri: unknown): string | undefined {
  if (typeof uri !== "string" || !/^file:\/\//i.test(uri) || !URL.canParse(uri)) return undefined;
  const { host, pathname, search, hash } = new URL(uri);
  if ((host !== "" && host !== "localhost") || search !== "" || hash !== "") return undefined;
  try {
    const path = decodeURIComponent(pathname);
    return path.includes("\0") ? undefined : path;
  } catch {
    return undefined;
  }
}

/** A relative path stays a relative reference: what it is relative to, only the workspace knows. */
export function fileUri(path: string): string {
  if (/^[a-z][a-z0-9+.-]*:/i.test(path)) return path;
  const escaped = path.toWellFormed().split("/").map(encodeURIComponent).join("/");
  return path.startsWith("/") ? `file://${escaped}` : escaped;
}
