import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { AuthConfigError, issuersOf } from "../../auth/issuers.ts";
import { KeysUnavailable } from "../../auth/keys.ts";
import { isShareToken, verifyShareToken } from "../../auth/share-token.ts";
import { verifyToken } from "../../auth/verify.ts";
import type { Caller, Scope } from "../../protocol/caller.ts";
import { auditRefusedToken } from "../../tenant/client/refused-token-audit.ts";
import { isRevoked } from "../../tenant/client/revocation-cache.ts";
import type { AppEnv } from "../app-env.ts";
import { RefusalException } from "../refusal-response.ts";
import { credentialOf } from "./credential.ts";
import { mayActWith } from "./origin.ts";
import { limitRate } from "./rate-limits.ts";

/** Lets a request pass whose token has one of the scopes. */
export function requireScope(...scopes: readonly [Scope, ...Scope[]]) {
  return createMiddleware<AppEnv>(async (c, next) => {
    // The middleware may run twice for a request: a route may require more than the routes around it.
    const caller = c.get("caller") ?? (await authenticate(c));
    if (!scopes.some((scope) => caller.scopes.includes(scope)))
      throw forbidden(`The token lacks the scope ${scopes[0]}`);
    c.set("caller", caller);
    await next();
  });
}

async function authenticate(c: Context<AppEnv>): Promise<Caller> {
  return failClosed(async () => {
    // A misconfigured gateway says so to every caller, not only to those with a token.
    issuersOf(c.env);
    const credential = credentialOf(c.req.raw);
    if (!credential) throw unauthorized();
    if (!mayActWith(credential, c.req.raw)) throw forbidden("Only a page of this gateway may do that");
    const caller = await verifyCaller(c, credential.token);
    await limitRate(c, `subject:${JSON.stringify([caller.tenant, caller.subject])}`);
    return caller;
  });
}

/** The bearer of a token that is valid and not revoked. A refused token is audited if its bearer is known. */
export async function verifyCaller(c: Context<AppEnv>, token: string): Promise<Caller> {
  const verified = await (isShareToken(token) ? verifyShareToken : verifyToken)(c.env, token);
  if (!verified.ok) {
    const { reason, bearer } = verified.refusal;
    if (bearer) c.executionCtx.waitUntil(auditRefusedToken(c.env, c.get("limits"), bearer, reason));
    throw unauthorized();
  }
  if (!(await isRevoked(c.env, c.get("limits"), verified.value))) return verified.value;
  c.executionCtx.waitUntil(auditRefusedToken(c.env, c.get("limits"), verified.value, "revoked"));
  throw unauthorized();
}

/** While tokens cannot be verified, every caller is refused. The reason is logged, and not told to the caller. */
export async function failClosed<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AuthConfigError) {
      console.error("authentication is misconfigured: every caller is refused", { reason: error.message });
      throw unavailable("This gateway's authentication is not set up");
    }
    if (error instanceof KeysUnavailable) throw unavailable("The issuer of the token cannot be reached");
    throw error;
  }
}

function unauthorized(): HTTPException {
  return new HTTPException(401, { message: "A valid token is required" });
}

function forbidden(message: string): RefusalException {
  return new RefusalException({ reason: "forbidden", message });
}

function unavailable(message: string): RefusalException {
  return new RefusalException({ reason: "unavailable", message });
}
