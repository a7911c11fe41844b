import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { AuthConfigError, issuersOf } from "../../auth/issuers.ts";
import { KeysUnavailable } from "../../auth/keys.ts";
import { isShareToken, verifyShareToken } from "../../auth/share-token.ts";
import { verifyToken } from "../../auth/verify.ts";
import { JURISDICTION_CHANGED, RegionConfigError, readRegions } from "../../durable/regions.ts";
import type { Caller, Scope } from "../../protocol/caller.ts";
import { clipMessage } from "../../protocol/clipped-text.ts";
import type { Result } from "../../protocol/refusal.ts";
import { auditRefusedToken } from "../../tenant/client/refused-token-audit.ts";
import { isRevoked } from "../../tenant/client/revocation-cache.ts";
import type { AppEnv } from "../app-env.ts";
import { requestSocket, type SocketResponse } from "../object-socket.ts";
import { RefusalException } from "../refusal-response.ts";
import { credentialOf } from "./credential.ts";
import { mayActWith } from "./origin.ts";
import { limitRate } from "./rate-limits.ts";
import { isWebSocketUpgrade } from "./upgrade.ts";

/** Lets a request pass whose token is not revoked and has one of the scopes. */
export function requireScope(...scopes: readonly [Scope, ...Scope[]]) {
  return requireToken(scopes, verifyCaller);
}

/**
 * Lets a request pass whose token has one of the scopes. Whether the token of a socket is revoked, the object asks that
 * accepts the socket, so that opening a socket costs one question: see `openSocket`.
 */
export function requireSocketScope(...scopes: readonly [Scope, ...Scope[]]) {
  return requireToken(scopes, (c, token) =>
    c.req.raw.method === "GET" && isWebSocketUpgrade(c.req.raw)
      ? verifyBearer(c, token)
      : verifyCaller(c, token),
  );
}

/** Asks an object for a socket for the caller. A revoked token is refused as such, whatever else the object refuses. */
export async function openSocket(
  c: Context<AppEnv>,
  find: () => Pick<Fetcher, "fetch">,
  headers: Record<string, string>,
): Promise<Result<SocketResponse>> {
  const response = await requestSocket(find, headers);
  if (response.ok) return response;
  const { reason } = response.refusal;
  if (reason === "unauthorized") auditRevoked(c, c.get("caller"));
  else if (reason !== "unavailable" && reason !== "too-many") await refuseRevoked(c, c.get("caller"));
  return response;
}

function requireToken(scopes: readonly [Scope, ...Scope[]], verify: typeof verifyCaller) {
  return createMiddleware<AppEnv>(async (c, next) => {
    // The middleware may run twice for a request: a route may require more than the routes around it.
    const caller = c.get("caller") ?? (await authenticate(c, verify));
    if (!scopes.some((scope) => caller.scopes.includes(scope)))
      throw forbidden(`The token lacks the scope ${scopes.join(" or ")}`);
    c.set("caller", caller);
    await next();
  });
}

async function authenticate(c: Context<AppEnv>, verify: typeof verifyCaller): Promise<Caller> {
  return failClosed(async () => {
    // A misconfigured gateway says so to every caller, not only to those with a token.
    issuersOf(c.env);
    readRegions(c.env.REGIONS);
    const credential = credentialOf(c.req.raw);
    if (!credential) throw unauthorized();
    if (!mayActWith(credential, c.req.raw)) throw forbidden("Only a page of this gateway may do that");
    const caller = await verify(c, credential.token);
    await limitRate(c, `subject:${JSON.stringify([caller.tenant, caller.subject])}`);
    return caller;
  });
}

/** The bearer of a token that is valid and not revoked. */
export async function verifyCaller(c: Context<AppEnv>, token: string): Promise<Caller> {
  const caller = await verifyBearer(c, token);
  await refuseRevoked(c, caller);
  return caller;
}

/** The bearer of a token that is valid, revoked or not. A refused token is audited if its bearer is known. */
async function verifyBearer(c: Context<AppEnv>, token: string): Promise<Caller> {
  const verified = await (isShareToken(token) ? verifyShareToken : verifyToken)(c.env, token);
  if (verified.ok) return verified.value;
  const { reason, bearer } = verified.refusal;
  if (bearer) c.executionCtx.waitUntil(auditRefusedToken(c.env, c.get("limits"), bearer, reason));
  throw unauthorized();
}

/** Refuses a caller whose token is revoked. While nobody can say whether it is, the request is answered with 503. */
async function refuseRevoked(c: Context<AppEnv>, caller: Caller): Promise<void> {
  let revoked: boolean;
  try {
    revoked = await isRevoked(c.env, c.get("limits"), caller);
  } catch (error) {
    if (error instanceof RegionConfigError || String(error).includes(JURISDICTION_CHANGED)) throw error;
    console.error("token could not be checked", { error: clipMessage(String(error)) });
    throw new RefusalException({
      reason: "unavailable",
      message: "The token cannot be checked now: try again",
      retryAfterMs: RETRY_MS,
    });
  }
  if (!revoked) return;
  auditRevoked(c, caller);
  throw unauthorized();
}

function auditRevoked(c: Context<AppEnv>, caller: Caller): void {
  c.executionCtx.waitUntil(auditRefusedToken(c.env, c.get("limits"), caller, "revoked"));
}

/** Clients that cannot be answered now come back after about this time, in their own rhythm. */
const RETRY_MS = 1000;

/** While tokens cannot be verified, every caller is refused. The reason is logged, and not told to the caller. */
export async function failClosed<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof AuthConfigError) {
      console.error("authentication is misconfigured: every caller is refused", { reason: error.message });
      throw unavailable("This gateway's authentication is not set up");
    }
    if (error instanceof RegionConfigError) {
      console.error("REGIONS is not valid: every caller is refused", { reason: error.message });
      throw unavailable("This gateway's regions are not set up");
    }
    if (error instanceof Error && error.message.includes(JURISDICTION_CHANGED))
      throw unavailable("The jurisdiction of this tenant does not fit its data: see the gateway's log");
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
