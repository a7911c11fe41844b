import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { isUnavailable } from "../durable/object-call.ts";
import { IndexUnavailable } from "../index/index-unavailable.ts";
import { assertNever } from "../protocol/assert-never.ts";
import { clipMessage } from "../protocol/clipped-text.ts";
import type { Refusal, Result } from "../protocol/refusal.ts";
import type { ErrorBody } from "../protocol/rest.ts";
import { NewerVersion } from "../protocol/versions.ts";

/** A refusal on its way to the error handler of the app, which turns it into the response. */
export class RefusalException extends HTTPException {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(httpErrorOf(refusal).status, { message: refusal.message });
    this.refusal = refusal;
  }
}

/** The value of a result; a refusal ends the request. */
export function unwrap<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw new RefusalException(result.refusal);
}

/** The refusal as an HTTP error. */
export function httpErrorOf(refusal: Refusal): { status: ContentfulStatusCode; body: ErrorBody } {
  const { message } = refusal;
  switch (refusal.reason) {
    case "not-found":
      return httpError(404, message);
    case "gone":
      return httpError(410, message);
    case "unauthorized":
      return httpError(401, message);
    case "forbidden":
      return httpError(403, message);
    case "invalid":
    case "no-agent":
      return httpError(400, message);
    case "no-option":
      return { status: 400, body: { error: { code: "bad_option", message, options: refusal.options } } };
    case "bad-answer":
      return {
        status: 400,
        body: { error: { code: "bad_answer", message: clipMessage(message), fields: refusal.fields } },
      };
    case "conflict":
      return httpError(409, message);
    case "too-many":
      return httpError(429, message);
    case "not-configured":
      return httpError(501, message);
    case "unavailable":
      return httpError(503, message);
    default:
      return assertNever(refusal);
  }
}

/** The refusal as a response of the Streamable HTTP transport, which reports its errors as plain text. */
export function respondInText(c: Context, refusal: Refusal): Response {
  setRetryAfter(c, refusal);
  return c.text(clipMessage(refusal.message), httpErrorOf(refusal).status);
}

/** Answers a request that ended with an exception. Only an HTTPException has a message that the caller may read. */
export function respondToError(c: Context, error: Error): Response {
  if (error instanceof RefusalException) {
    const { status, body } = httpErrorOf(error.refusal);
    setRetryAfter(c, error.refusal);
    return c.json(body, status);
  }
  if (error instanceof NewerVersion) {
    console.warn("newer version", { path: c.req.path, error: error.message });
    return c.json(httpError(503, error.message).body, 503);
  }
  if (error instanceof HTTPException) {
    const { status, body } = httpError(error.status, error.message);
    return c.json(body, status);
  }
  if (error instanceof IndexUnavailable || isUnavailable(error))
    return respondToError(c, new RefusalException(UNAVAILABLE));
  console.error("request failed", { path: c.req.path, error: clipMessage(String(error)) });
  return c.json({ error: { code: "internal", message: "Internal error" } }, 500);
}

/** An object or the index is overloaded, or was lost while it worked on the request. */
const UNAVAILABLE: Refusal = {
  reason: "unavailable",
  message: "The gateway could not finish the request: try again",
  retryAfterMs: 1000,
};

/** Tells the client when a retry can succeed. */
function setRetryAfter(c: Context, refusal: Refusal): void {
  if ("retryAfterMs" in refusal && refusal.retryAfterMs !== undefined)
    c.header("Retry-After", String(Math.ceil(refusal.retryAfterMs / 1000)));
}

function httpError(status: ContentfulStatusCode, message: string) {
  return { status, body: { error: { code: CODES[status] ?? "error", message: clipMessage(message) } } };
}

const CODES: Partial<Record<number, string>> = {
  400: "bad_request",
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  408: "timeout",
  409: "conflict",
  410: "gone",
  413: "too_large",
  414: "too_large",
  426: "upgrade_required",
  429: "too_many_requests",
  431: "too_large",
  501: "not_configured",
  503: "unavailable",
};
