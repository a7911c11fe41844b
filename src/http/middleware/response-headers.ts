import { cors } from "hono/cors";
import { createMiddleware } from "hono/factory";
import { secureHeaders } from "hono/secure-headers";
import type { AppEnv } from "../app-env.ts";
import { isAllowedOrigin } from "./origin.ts";
import { isUpgrade } from "./upgrade.ts";

/** Pages of allowed origins may send requests with a token of their own. Cookies are for the gateway's own page. */
const allowOrigins = cors({
  origin: (origin, c) => (isAllowedOrigin(c.env as Env, c.req.raw) ? origin : null),
  allowMethods: ["GET", "HEAD", "POST", "PUT", "DELETE"],
  allowHeaders: ["Authorization", "Content-Type", "Acp-Connection-Id", "Acp-Session-Id", "Last-Event-ID"],
  exposeHeaders: ["Acp-Connection-Id", "Acp-Session-Id", "Content-Disposition", "Retry-After"],
  maxAge: 600,
});

const secure = secureHeaders({ xFrameOptions: "DENY", crossOriginResourcePolicy: false });

/** For responses without a policy of their own: nothing loads, nothing is framed, no form is sent. */
const POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Adds CORS and security headers. The answer to an upgrade needs neither. */
export const setResponseHeaders = createMiddleware<AppEnv>(async (c, next) => {
  if (isUpgrade(c.req.raw)) return next();
  const nextSecured = async () => {
    await secure(c, next);
    if (!c.res.headers.has("Content-Security-Policy")) c.header("Content-Security-Policy", POLICY);
    // Responses have tokens, links and sessions: no proxy and no browser keeps them.
    if (!c.res.headers.has("Cache-Control")) c.header("Cache-Control", "no-store");
  };
  // Without an Origin header an OPTIONS request is no preflight, and CORS must not answer it.
  const isFromPage = c.req.header("Origin") !== undefined;
  return isFromPage ? allowOrigins(c, nextSecured) : nextSecured();
});
