import type { Context } from "hono";
import { bodyLimit } from "hono/body-limit";
import { cors } from "hono/cors";
import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { secureHeaders } from "hono/secure-headers";
import { LIMITS } from "../../protocol/limits.ts";
import { pacedBody } from "../streams/paced-body.ts";
import type { AppEnv } from "./auth.ts";
import { isAllowedOrigin, originOf } from "./origin.ts";
import { limitRate } from "./rate.ts";

/** What holds for every request, before anybody asks who sends it. */

/** A request that is longer than any of ours is not read any further. */
export const limitLength = createMiddleware<AppEnv>(async (c, next) => {
  if (c.req.url.length > LIMITS.urlChars) throw new HTTPException(414, { message: "The URL is too long" });
  let chars = 0;
  for (const [name, value] of c.req.raw.headers) chars += name.length + value.length;
  if (chars > LIMITS.headerChars) throw new HTTPException(431, { message: "The headers are too long" });
  await next();
});

/** A browser opens WebSockets for any page, without asking us first: so it is we who ask which page it is. */
export const refuseForeignSockets = createMiddleware<AppEnv>(async (c, next) => {
  if (isUpgrade(c.req.raw) && originOf(c.req.raw) === "foreign" && !isAllowedOrigin(c.env, c.req.raw))
    throw new HTTPException(403, { message: "Pages of this origin may not connect: see ALLOWED_ORIGINS" });
  await next();
});

/** Before the token is looked at: whoever tries many is slowed down as well. */
export const limitAddress = createMiddleware<AppEnv>(async (c, next) => {
  const address = c.req.header("CF-Connecting-IP");
  if (address !== undefined) await limitRate(c, `address:${address}`);
  await next();
});

/** Pages of other origins that are allowed may ask with a token of their own; cookies are for our own page alone. */
const shareWithAllowed = cors({
  origin: (origin, c) => (isAllowedOrigin(c.env as Env, c.req.raw) ? origin : null),
  allowMethods: ["GET", "HEAD", "POST", "PUT", "DELETE"],
  allowHeaders: ["Authorization", "Content-Type", "Acp-Connection-Id", "Acp-Session-Id", "Last-Event-ID"],
  exposeHeaders: ["Acp-Connection-Id", "Acp-Session-Id", "Content-Disposition", "Retry-After"],
  maxAge: 600,
});

/** Nothing here is to be framed, guessed at or told to other sites; a page that needs more says so itself. */
const secure = secureHeaders({ xFrameOptions: "DENY", crossOriginResourcePolicy: false });
const POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** A socket's answer has no use for headers of pages. */
export const headers = createMiddleware<AppEnv>(async (c, next) => {
  if (isUpgrade(c.req.raw)) return next();
  const answer = async () => {
    await secure(c, next);
    if (!c.res.headers.has("Content-Security-Policy")) c.header("Content-Security-Policy", POLICY);
  };
  // A request with the method OPTIONS is not always a browser's question.
  const asks = c.req.header("Origin") !== undefined;
  return asks ? shareWithAllowed(c, answer) : answer();
});

/**
 * A body that does not come keeps a request open for nothing, so it is not waited for. An import may be long, as long as
 * it goes on. Whatever a route has made of half a body, the answer is this.
 */
export const limitPace = createMiddleware<AppEnv>(async (c, next) => {
  const { raw } = c.req;
  // Nobody reads the body of a request that only asks.
  if (!raw.body || raw.method === "GET" || raw.method === "HEAD") return next();
  let isLate = false;
  const tooSlow = () => {
    isLate = true;
    return new HTTPException(408, { message: "The body came too slowly" });
  };
  const totalMs = isImport(c) ? Number.POSITIVE_INFINITY : LIMITS.bodyMs;
  const body = pacedBody(raw.body, { stallMs: LIMITS.bodyStallMs, totalMs }, tooSlow);
  c.req.raw = new Request(raw, { body });
  await next();
  if (!isLate) return;
  // Errors of the transport are texts.
  if (c.req.path === "/acp") c.res = c.text("Request Timeout", 408);
  else throw tooSlow();
});

/** Imports are streams, and have limits of their own. */
const limitBody = bodyLimit({
  maxSize: LIMITS.bodyBytes,
  onError: () => {
    throw new HTTPException(413, { message: `The body exceeds ${LIMITS.bodyBytes} bytes` });
  },
});

export const limitJson = createMiddleware<AppEnv>((c, next) => (isImport(c) ? next() : limitBody(c, next)));

function isImport(c: Context<AppEnv>): boolean {
  return c.req.path === "/api/sessions/import";
}

function isUpgrade(request: Request): boolean {
  return request.headers.has("Upgrade");
}
