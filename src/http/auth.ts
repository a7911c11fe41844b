import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from "jose";
import { z } from "zod";
import type { Caller } from "../protocol/caller.ts";

/** What a token says about its bearer, besides the registered claims that jose checks. */
const CLAIMS = z.object({
  sub: z.string().min(1),
  exp: z.number(),
  tenant: z.string().min(1),
  workspaces: z.array(z.string()).default([]),
  scopes: z.array(z.string()).default([]),
});

export type AppEnv = { Bindings: Env; Variables: { caller: Caller } };

/** Lets a request through when its token is good for one of the given scopes. */
export function requireScope(...scopes: readonly [string, ...string[]]) {
  return createMiddleware<AppEnv>(async (c, next) => {
    const caller = await authenticate(c.req.raw, c.env);
    if (!caller) throw new HTTPException(401, { message: "A valid token is required" });
    if (!scopes.some((scope) => caller.scopes.includes(scope)))
      throw new HTTPException(403, { message: `The token lacks the scope ${scopes[0]}` });
    c.set("caller", caller);
    await next();
  });
}

async function authenticate(request: Request, env: Env): Promise<Caller | undefined> {
  const token = bearerOf(request);
  if (!token) return undefined;
  try {
    const { payload } = await jwtVerify(
      token,
      createLocalJWKSet(JSON.parse(env.AUTH_JWKS) as JSONWebKeySet),
      {
        issuer: env.AUTH_ISSUER,
        audience: env.AUTH_AUDIENCE,
        algorithms: ["EdDSA", "ES256", "RS256"],
        clockTolerance: 5,
      },
    );
    const { sub, exp, tenant, workspaces, scopes } = CLAIMS.parse(payload);
    return { subject: sub, tenant, workspaces, scopes, expires: exp };
  } catch {
    return undefined;
  }
}

/** Browsers cannot set headers on a WebSocket, so the token may be in the query as well. */
function bearerOf(request: Request): string | undefined {
  const header = /^Bearer +(\S+)$/i.exec(request.headers.get("Authorization") ?? "");
  return header?.[1] ?? new URL(request.url).searchParams.get("token") ?? undefined;
}
