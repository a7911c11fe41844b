import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from "jose";

export const LOCAL_WORKSPACE = "local";
const ISSUER = "acp-edge";
const AUDIENCE = "acp-edge";
const ALGORITHM = "EdDSA";

/** What a token says about its bearer, beside the registered claims. */
export type TokenClaims = {
  sub: string;
  tenant: string;
  workspaces: string[];
  scopes: string[];
};

export const CLIENT_CLAIMS: TokenClaims = {
  sub: "local",
  tenant: "local",
  workspaces: [LOCAL_WORKSPACE],
  scopes: ["session:read", "session:prompt", "permission:answer", "workspace:admin", "share"],
};

export const HOST_CLAIMS: TokenClaims = {
  sub: "host:local",
  tenant: "local",
  workspaces: [LOCAL_WORKSPACE],
  scopes: ["host"],
};

export type Signer = {
  /** The public half as a JSON Web Key Set, for AUTH_JWKS. */
  jwks: string;
  sign(claims: TokenClaims, lifetime: string): Promise<string>;
};

/** The signing key of this state directory; made on first use, so that old tokens stay valid. */
export async function loadSigner(stateDir: string): Promise<Signer> {
  const path = join(stateDir, "signing-key.json");
  const jwk = (await readKey(path)) ?? (await makeKey(path));
  const { d: _private, ...publicJwk } = jwk;
  const key = await importJWK(jwk, ALGORITHM);
  const kid = jwk.kid as string;
  return {
    jwks: JSON.stringify({ keys: [publicJwk] }),
    sign: (claims, lifetime) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg: ALGORITHM, kid, typ: "JWT" })
        .setIssuer(ISSUER)
        .setAudience(AUDIENCE)
        .setJti(randomUUID())
        .setIssuedAt()
        .setExpirationTime(lifetime)
        .sign(key),
  };
}

async function readKey(path: string): Promise<JWK | undefined> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as JWK;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Error(`${path} is not readable as a key; remove it to get a new one`, { cause: error });
  }
}

async function makeKey(path: string): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  const named: JWK = { ...jwk, alg: ALGORITHM, use: "sig", kid: await calculateJwkThumbprint(jwk) };
  await writeFile(path, JSON.stringify(named), { mode: 0o600, flag: "wx" });
  return named;
}
