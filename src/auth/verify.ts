import { decodeJwt, errors, type JWTPayload, jwtVerify } from "jose";
import type { Caller } from "../protocol/caller.ts";
import { type AuthVars, type Issuer, issuersOf } from "./issuers.ts";
import { readRights } from "./rights.ts";

/** Why a token is not good; and whose it is, if its signature is. */
export type Refused = { refused: string; bearer?: { tenant: string; subject: string } };

/**
 * Who the bearer of a token is. Throws when that cannot be known: the configuration is wrong, or an issuer's keys
 * cannot be had.
 */
export async function verifyToken(env: AuthVars, token: string): Promise<Caller | Refused> {
  const issuers = issuersOf(env);
  const claimed = claimedIssuer(token);
  let last: Refused = { refused: "unknown issuer" };
  // Several may have the same name, for different audiences.
  for (const issuer of issuers.filter((one) => one.issuer === claimed)) {
    const result = await verifyWith(issuer, token);
    if (!("refused" in result)) return result;
    if (!last.bearer) last = result;
  }
  return last;
}

async function verifyWith(issuer: Issuer, token: string): Promise<Caller | Refused> {
  try {
    const { payload } = await jwtVerify(token, issuer.keys.find, {
      issuer: issuer.issuer,
      audience: issuer.audience,
      algorithms: issuer.algorithms,
      clockTolerance: issuer.clockSkew,
      requiredClaims: ["exp"],
    });
    return readRights(payload, issuer);
  } catch (error) {
    if (!(error instanceof errors.JOSEError)) throw error;
    return { refused: error.code, ...bearerOf(error, issuer) };
  }
}

/** An error in the claims comes after the check of the signature. */
function bearerOf(error: errors.JOSEError, issuer: Issuer): Pick<Refused, "bearer"> {
  if (!(error instanceof errors.JWTExpired) && !(error instanceof errors.JWTClaimValidationFailed)) return {};
  const rights = readRights(error.payload, issuer);
  return "refused" in rights ? {} : { bearer: { tenant: rights.tenant, subject: rights.subject } };
}

function claimedIssuer(token: string): JWTPayload["iss"] {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}
