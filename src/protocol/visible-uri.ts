/**
 * The part of an address that names a document: neither contents, as in `data:` addresses, nor credentials, which stand
 * before the host, in the query or in the fragment. Of an address without a path only the scheme is left.
 */
export function visibleUri(uri: string): string {
  const scheme = SCHEME.exec(uri)?.[0] ?? "";
  if (scheme !== "" && !uri.startsWith("//", scheme.length)) return scheme;
  const path = uri.split(/[?#]/, 1)[0] as string;
  const authority = scheme === "" ? 0 : scheme.length + 2;
  const end = path.indexOf("/", authority);
  const at = path.lastIndexOf("@", end < 0 ? undefined : end);
  return scheme !== "" && at >= authority ? path.slice(0, authority) + path.slice(at + 1) : path;
}

/** A single letter before a colon is a drive: the address is a path. */
const SCHEME = /^[a-z][a-z0-9+.-]+:/i;
