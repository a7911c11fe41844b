import { importJWK, type JWK, SignJWT } from "jose";

type Signing = { HOST_SIGNING_KEY?: string; AUTH_ISSUER: string; AUTH_AUDIENCE: string };

/** A token for a host of exactly this workspace, signed by a key whose public half is in AUTH_JWKS. */
export async function mintHostToken(
  env: Signing,
  { tenant, workspace }: { tenant: string; workspace: string },
  lifeMs: number,
): Promise<string> {
  // In a token the name would be a pattern, valid for other workspaces as well.
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
    .setExpirationTime(new Date(Date.now() + lifeMs))
    .sign(await importJWK(jwk, alg));
}
