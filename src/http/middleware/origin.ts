import { isPattern, matchesPattern } from "../../protocol/name-pattern.ts";
import type { Credential } from "./credential.ts";

/** Which page makes a request: ours, another one, or none that we know of. */
export function originOf(request: Request): "own" | "foreign" | "unknown" {
  const origin = request.headers.get("Origin");
  if (origin !== null) return origin === new URL(request.url).origin ? "own" : "foreign";
  const site = request.headers.get("Sec-Fetch-Site");
  if (site === null) return "unknown";
  return site === "same-origin" ? "own" : "foreign";
}

/**
 * Whether a request comes from a page of another origin that may use this gateway: ALLOWED_ORIGINS names them, or
 * gives patterns with a `*`, with spaces or commas between.
 */
export function isAllowedOrigin(
  { ALLOWED_ORIGINS = "" }: { ALLOWED_ORIGINS?: string },
  request: Request,
): boolean {
  const origin = request.headers.get("Origin");
  if (origin === null) return false;
  return ALLOWED_ORIGINS.split(/[\s,]+/).some(
    (one) => one !== "" && isPattern(one) && matchesPattern(one, origin),
  );
}

/**
 * Whether a request may act with this token. What a browser adds by itself says nothing about who wants it: to
 * change something, or to open a socket, the request must come from our own page. A request with a token of Access
 * may come from a program as well, which says nothing of origins.
 */
export function mayActWith({ sentBy }: Credential, request: Request): boolean {
  if (sentBy !== "bearer" && request.headers.has("Origin") && originOf(request) === "foreign") return false;
  const reads = request.method === "GET" || request.method === "HEAD";
  if (sentBy === "bearer" || (reads && request.headers.get("Upgrade") === null)) return true;
  const origin = originOf(request);
  return origin === "own" || (sentBy === "access" && origin === "unknown");
}
