import { isPattern, matchesPattern } from "../../protocol/name-pattern.ts";
import type { Credential } from "./credential.ts";

/** Whether the gateway's own page makes a request, a page of another origin, or a sender that names no origin. */
export function originOf(request: Request): "own" | "foreign" | "unknown" {
  const origin = request.headers.get("Origin");
  if (origin !== null) return origin === new URL(request.url).origin ? "own" : "foreign";
  const site = request.headers.get("Sec-Fetch-Site");
  if (site === null) return "unknown";
  return site === "same-origin" ? "own" : "foreign";
}

/** ALLOWED_ORIGINS lists origins, or patterns with one `*`, separated by spaces or commas. */
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
 * Whether a request may act with its token. A token that the browser adds by itself does not prove that the user
 * wants the request, so a change or a WebSocket must come from the gateway's own page. A token of Access may also be
 * a program's service token, and programs send no origin.
 */
export function mayActWith({ sentBy }: Credential, request: Request): boolean {
  if (sentBy !== "bearer" && request.headers.has("Origin") && originOf(request) === "foreign") return false;
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (sentBy === "bearer" || (isRead && request.headers.get("Upgrade") === null)) return true;
  const origin = originOf(request);
  return origin === "own" || (sentBy === "access" && origin === "unknown");
}
