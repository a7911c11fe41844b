import { claimsOf } from "./token-source.ts";

/** What the gateways of this project expect unless configured otherwise. */
const EXPECTED = "acp-edge";

/** Why a gateway may have refused a token, as far as the token itself tells. */
export function tokenTrouble(token: string, clockAheadMs = 0, now = Date.now()): string {
  const claims = claimsOf(token);
  if (!claims) return "It is no token (JWT) at all: three parts with dots between them are expected.";
  // The gateway's clock is the one that counts.
  const there = (now - clockAheadMs) / 1000;
  const { exp, nbf, aud, iss } = claims;
  if (exp === undefined)
    return "It says of itself no time at which it expires (exp), which a gateway wants to know.";
  if (exp < there) return `It expired ${when(exp)}: get a new one and store it with \`acp-edge login\`.`;
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
  return "It looks right from here, so it was signed with a key the gateway does not have in its AUTH_JWKS, or was revoked.";
}

/** For a token that is good: until when. */
export function expiryOf(token: string): string {
  const exp = claimsOf(token)?.exp;
  return exp === undefined ? "" : `, good until ${when(exp)}`;
}

function when(seconds: number): string {
  return new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 16);
}
