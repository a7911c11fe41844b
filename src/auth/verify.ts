import { base64url, decodeJwt, errors, type JWTPayload, jwtVerify } from "jose";
import type { Caller } from "../protocol/caller.ts";
import { type Result, refused } from "../protocol/refusal.ts";
import { type AuthVars, type Issuer, issuersOf } from "./issuers.ts";
import { readRights } from "./rights.ts";
import type { TokenRefusal } from "./token-refusal.ts";

/**
 * Verifies a token and reads its bearer's rights. Throws `AuthConfigError` or `KeysUnavailable` when the token cannot
 * be verified at all.
 */
export async function verifyToken(env: AuthVars, token: string): Promise<Result<Caller, TokenRefusal>> {
  const issuers = issuersOf(env);
  const claimed = claimedIssuer(token);
  let best: TokenRefusal = { reason: "unknown issuer" };
  // Several issuers may share a name and differ in their audience.
  for (const issuer of issuers.filter((one) => one.issuer === claimed)) {
    const result = await verifyWith(issuer, token);
    if (result.ok) return result;
    if (!best.bearer) best = result.refusal;
  }
  return refused(best);
}

async function verifyWith(issuer: Issuer, token: string): Promise<Result<Caller, TokenRefusal>> {
  try {
    const { payload } = await jwtVerify(token, issuer.keys.find, {
      issuer: issuer.issuer,
      audience: issuer.audience,
      algorithms: issuer.algorithms,
      clockTolerance: issuer.clockSkew,
      requiredClaims: ["exp"],
    });
    return readRights({ ...payload, jti: payload.jti ?? (await derivedId(token)) }, issuer);
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) throw error;
    return refused({ reason: error.code, ...bearerOf(error, issuer) });
  }
}

/**
 * The id of a token that has none, so that every token can be revoked and logged out. The signature is no part of it: some
 * algorithms allow several for the same token.
 */
async function derivedId(token: string): Promise<string> {
  const signed = new TextEncoder().encode(token.slice(0, token.lastIndexOf(".")));
  const digest = await crypto.subtle.digest("SHA-256", signed);
  return `sha256:${base64url.encode(new Uint8Array(digest))}`;
}

/** jose validates claims after the signature, so an error about a claim comes with a payload that can be trusted. */
function bearerOf(error: errors.JOSEError, issuer: Issuer): Pick<TokenRefusal, "bearer"> {
  if (!(error instanceof errors.JWTExpired) && !(error instanceof errors.JWTClaimValidationFailed)) return {};
  const rights = readRights(error.payload, issuer);
  return rights.ok ? { bearer: { tenant: rights.value.tenant, subject: rights.value.subject } } : {};
}

function claimedIssuer(token: string): JWTPayload["iss"] {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}
