/** Paths and `file:` URIs, for peers that use one in place of the other. */

/** The path that a `file://` URI names on its own machine; undefined for any other value. */
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

/** A relative path becomes a relative reference, because only the workspace knows its base. A URI stays as it is. */
export function fileUri(path: string): string {
  if (/^[a-z][a-z0-9+.-]*:/i.test(path)) return path;
  const escaped = path.toWellFormed().split("/").map(encodeURIComponent).join("/");
  return path.startsWith("/") ? `file://${escaped}` : escaped;
}
