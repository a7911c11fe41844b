import type { Limits } from "../../protocol/limits.ts";
import type { Pace } from "../streams/paced-body.ts";

/** Which part of a request is longer than any legitimate request needs. */
export function excessIn(
  { url, headers }: Pick<Request, "url" | "headers">,
  { urlChars, headerChars }: Pick<Limits, "urlChars" | "headerChars">,
): "url" | "headers" | undefined {
  if (url.length > urlChars) return "url";
  let chars = 0;
  for (const [name, value] of headers) chars += name.length + value.length;
  return chars > headerChars ? "headers" : undefined;
}

/** How large the body of a request may be, and how slowly it may arrive. */
export type BodyLimits = Pace & { maxBytes: number };

/**
 * An import is a stream with limits of its own: it may take any time, as long as it does not stall. `/acp` measures
 * its messages in characters while it reads them.
 */
export function bodyLimitsOf(
  path: string,
  { bodyBytes, bodyMs, bodyStallMs }: Pick<Limits, "bodyBytes" | "bodyMs" | "bodyStallMs">,
): BodyLimits {
  const isImport = path === "/api/sessions/import";
  const isApi = path === "/answer" || path === "/api" || path.startsWith("/api/");
  return {
    stallMs: bodyStallMs,
    totalMs: isImport ? Number.POSITIVE_INFINITY : bodyMs,
    maxBytes: isApi && !isImport ? bodyBytes : Number.POSITIVE_INFINITY,
  };
}
