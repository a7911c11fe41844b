import { bodyLimit } from "hono/body-limit";
import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import type { AppEnv } from "../app-env.ts";
import { pacedBody } from "../streams/paced-body.ts";
import { bodyLimitsOf } from "./request-limits.ts";

/**
 * Bounds the body by size and by time, because a body that does not arrive would keep the request open. A late body is
 * answered with 408, even if the route has already answered the part that arrived.
 */
export const limitBody = createMiddleware<AppEnv>(async (c, next) => {
  const { raw } = c.req;
  // No route reads the body of a GET or HEAD request.
  if (!raw.body || raw.method === "GET" || raw.method === "HEAD") return next();
  const { maxBytes, ...pace } = bodyLimitsOf(c.req.path, c.get("limits"));
  let isLate = false;
  const tooSlow = () => {
    isLate = true;
    return new HTTPException(408, { message: "The body arrived too slowly" });
  };
  c.req.raw = new Request(raw, { body: pacedBody(raw.body, pace, tooSlow) });
  if (maxBytes === Number.POSITIVE_INFINITY) await next();
  else await limitSize(maxBytes)(c, next);
  if (!isLate) return;
  // The Streamable HTTP transport reports its errors as plain text.
  if (c.req.path === "/acp") c.res = c.text("Request Timeout", 408);
  else throw tooSlow();
});

function limitSize(maxSize: number) {
  return bodyLimit({
    maxSize,
    onError: () => {
      throw new HTTPException(413, { message: `The body exceeds ${maxSize} bytes` });
    },
  });
}
