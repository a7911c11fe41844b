import { importJWK, type JWK, SignJWT } from "jose";
import { LIMITS } from "../../protocol/limits.ts";

/** Of the bindings. */
type Signing = { HOST_SIGNING_KEY?: string; AUTH_ISSUER: string; AUTH_AUDIENCE: string };

/** A token for the host of exactly this workspace. Its key is one of those that AUTH_JWKS has the public half of. */
export async function mintHostToken(
  env: Signing,
  { tenant, workspace }: { tenant: string; workspace: string },
): Promise<string> {
  // In a token it would be a pattern, good for other workspaces as well.
  if (workspace.includes("*"))
    throw new Error(`There is no host token for a workspace called "${workspace}"`);
  const jwk = JSON.parse(env.HOST_SIGNING_KEY ?? "null") as JWK;
  const alg = jwk.alg ?? "EdDSA";
  return new SignJWT({ tenant, workspaces: [workspace], scopes: ["host"] })
    .setProtectedHeader({ alg, typ: "JWT", ...(jwk.kid === undefined ? {} : { kid: jwk.kid }) })
    .setSubject("host:container")
    .setIssuer(env.AUTH_ISSUER)
    .setAudience(env.AUTH_AUDIENCE)
    .setJti(crypto.randomUUID())
    .setIssuedAt()
    .setExpirationTime(new Date(Date.now() + LIMITS.containerTokenMs))
    .sign(await importJWK(jwk, alg));
}
