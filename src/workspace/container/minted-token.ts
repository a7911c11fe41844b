import { importJWK, type JWK, SignJWT } from "jose";
import { HOST_ISSUER, HOST_ISSUER_SCOPES } from "../../auth/host-issuer.ts";

/** A token that the workspace has issued: its id, by which it can be revoked, and when it expires (milliseconds). */
export type IssuedToken = { jti: string; expires: number };

/** The subject of the tokens for the host of that name. */
export function hostSubject(host: string, workspace: string): string {
  return `host:${host}:${workspace}`;
}

/** A token for the host of that name of exactly this workspace, signed by HOST_SIGNING_KEY. */
export async function mintHostToken(
  signingKey: string | undefined,
  { tenant, workspace, host }: { tenant: string; workspace: string; host: string },
  lifeMs: number,
): Promise<IssuedToken & { token: string }> {
  // In a token the name would be a pattern, valid for other workspaces as well.
  if (workspace.includes("*"))
    throw new Error(`There is no host token for a workspace called "${workspace}"`);
  const jwk = JSON.parse(signingKey ?? "null") as JWK;
  const alg = jwk.alg ?? "EdDSA";
  const jti = crypto.randomUUID();
  const expires = Date.now() + lifeMs;
  const token = await new SignJWT({ tenant, workspaces: [workspace], scopes: HOST_ISSUER_SCOPES, host })
    .setProtectedHeader({ alg, typ: "JWT", ...(jwk.kid === undefined ? {} : { kid: jwk.kid }) })
    .setSubject(hostSubject(host, workspace))
    .setIssuer(HOST_ISSUER)
    .setAudience(HOST_ISSUER)
    .setJti(jti)
    .setIssuedAt()
    .setExpirationTime(new Date(expires))
    .sign(await importJWK(jwk, alg));
  return { token, jti, expires };
}
