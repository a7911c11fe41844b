import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { AuthConfigError, issuersOf } from "../../auth/issuers.ts";
import { KeysUnavailable } from "../../auth/keys.ts";
import { isShareToken, verifyShareToken } from "../../auth/share-token.ts";
import { verifyToken } from "../../auth/verify.ts";
import type { Caller, Scope } from "../../protocol/caller.ts";
import { noteRefusal } from "../../tenant/client/refused-token-audit.ts";
import { isRevoked } from "../../tenant/client/revocation-cache.ts";
import type { AppEnv } from "../app-env.ts";
import { credentialOf } from "./credential.ts";
import { mayActWith } from "./origin.ts";
import { limitRate } from "./rate-limits.ts";

/** Lets a request through when its token is good for one of the given scopes. */
export function requireScope(...scopes: readonly [Scope, ...Scope[]]) {
  return createMiddleware<AppEnv>(async (c, next) => {
    // A route may ask for more than the routes around it.
    const caller = c.get("caller") ?? (await authenticate(c));
    if (!scopes.some((scope) => caller.scopes.includes(scope)))
      throw new HTTPException(403, { message: `The token lacks the scope ${scopes[0]}` });
    c.set("caller", caller);
    await next();
  });
}

async function authenticate(c: Context<AppEnv>): Promise<Caller> {
  return failingClosed(async () => {
    // A gateway that cannot let anybody in says so to everybody.
    issuersOf(c.env);
    const credential = credentialOf(c.req.raw);
    if (!credential) throw unauthorized();
    if (!mayActWith(credential, c.req.raw))
      throw new HTTPException(403, { message: "Only a page of this gateway may do that" });
    const caller = await admit(c, credential.token);
    await limitRate(c, `subject:${JSON.stringify([caller.tenant, caller.subject])}`);
    return caller;
  });
}

/** The bearer of a token that is good now. */
export async function admit(c: Context<AppEnv>, token: string): Promise<Caller> {
  const verified = await (isShareToken(token) ? verifyShareToken : verifyToken)(c.env, token);
  const isGood = !("refused" in verified);
  if (isGood && !(await isRevoked(c.env, verified))) return verified;
  const bearer = isGood ? verified : verified.bearer;
  if (bearer) c.executionCtx.waitUntil(noteRefusal(c.env, bearer, isGood ? "revoked" : verified.refused));
  throw unauthorized();
}

/** A fault of ours or of the issuer lets nobody in, and the reason is for the log. */
export async function failingClosed<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AuthConfigError) {
      console.error("authentication is misconfigured, nobody is let in", { reason: error.message });
      throw new HTTPException(503, { message: "This gateway's authentication is not set up" });
    }
    if (error instanceof KeysUnavailable)
      throw new HTTPException(503, { message: "The issuer of the token cannot be reached" });
    throw error;
  }
}

function unauthorized(): HTTPException {
  return new HTTPException(401, { message: "A valid token is required" });
}
