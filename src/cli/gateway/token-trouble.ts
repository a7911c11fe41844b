import { claimsOf } from "./token-source.ts";

/** The issuer and audience that a gateway expects unless it is configured otherwise. */
const EXPECTED = "acp-edge";

/** Why a gateway may have refused a token, as far as the token's claims show. */
export function tokenTrouble(token: string, clockAheadMs = 0, now = Date.now()): string {
  const claims = claimsOf(token);
  if (!claims) return "It is not a JWT, which has three parts separated by dots.";
  // The gateway's clock decides.
  const there = (now - clockAheadMs) / 1000;
  const { exp, nbf, aud, iss } = claims;
  if (exp === undefined) return "It has no expiry time (exp), which a gateway requires.";
  if (exp < there) return `It expired ${when(exp)}. Get a new one and store it with \`acp-edge login\`.`;
  if (nbf !== undefined && nbf > there) return `It is not valid before ${when(nbf)}.`;
  if (Math.abs(clockAheadMs) > 60_000)
    return `The clock here is ${Math.round(Math.abs(clockAheadMs) / 1000)} s ${clockAheadMs > 0 ? "ahead of" : "behind"} the gateway's.`;
  if (![aud].flat().includes(EXPECTED))
    return `It is for the audience ${JSON.stringify(aud)}; a gateway expects "${EXPECTED}" unless its AUTH_AUDIENCE says otherwise.`;
  if (iss !== EXPECTED)
    return `It was issued by ${JSON.stringify(iss)}; a gateway expects "${EXPECTED}" unless its AUTH_ISSUER says otherwise.`;
  if (!claims.tenant) return "It names no tenant.";
  const scopes = Array.isArray(claims.scopes) ? claims.scopes.map(String) : [];
  if (!scopes.includes("session:read"))
    return `It lacks the scope session:read; it has ${scopes.join(", ") || "none"}.`;
  return "Its claims look right, so it was revoked, or signed with a key that is not in the gateway's AUTH_JWKS.";
}

/** When a valid token expires, as an addition to a sentence. */
export function describeExpiry(token: string): string {
  const exp = claimsOf(token)?.exp;
  return exp === undefined ? "" : `, valid until ${when(exp)}`;
}

function when(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 16);
}
