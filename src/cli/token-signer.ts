import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from "jose";
import type { Scope } from "../protocol/caller.ts";
import { KEY_FILES, keysDirectory } from "./state-keys.ts";

export const LOCAL_WORKSPACE = "local";
const ISSUER = "acp-edge";
const AUDIENCE = "acp-edge";
const ALGORITHM = "EdDSA";

/** The claims of a token about its bearer, besides the registered claims. */
export type TokenClaims = {
  sub: string;
  tenant: string;
  workspaces: string[];
  scopes: Scope[];
  /** The name of the only host that may join with the token. */
  host?: string;
};

export const CLIENT_CLAIMS: TokenClaims = {
  sub: "local",
  tenant: "local",
  workspaces: [LOCAL_WORKSPACE],
  scopes: ["session:read", "session:prompt", "permission:answer", "workspace:admin", "tenant:admin", "share"],
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

/** Loads the signing key of a state directory. The key is created once and kept, so that old tokens stay valid. */
export async function loadSigner(stateDir: string): Promise<Signer> {
  const path = keyPath(stateDir);
  return signerOf((await readKey(path)) ?? (await makeKey(path)));
}

/** The key of a state directory that signs the tokens of hosts on demand. It signs nothing else. */
export async function loadHostKey(stateDir: string): Promise<JWK> {
  const path = join(keysDirectory(stateDir), KEY_FILES.hosts);
  return (await readKey(path)) ?? makeKey(path);
}

export function keyPath(stateDir: string): string {
  return join(keysDirectory(stateDir), KEY_FILES.signing);
}

/** Signs with any kind of private key that a gateway accepts; the key's `alg` names the kind. */
export async function signerOf(jwk: JWK, names: TokenNames = {}): Promise<Signer> {
  const alg = jwk.alg ?? ALGORITHM;
  const key = await importJWK(jwk, alg);
  const kid = jwk.kid ?? (await calculateJwkThumbprint(jwk));
  return {
    jwks: JSON.stringify({ keys: [{ ...publicHalf(jwk), alg, kid }] }),
    sign: (claims, lifetime) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg, kid, typ: "JWT" })
        .setIssuer(names.issuer ?? ISSUER)
        .setAudience(names.audience ?? AUDIENCE)
        .setJti(randomUUID())
        .setIssuedAt()
        .setExpirationTime(lifetime)
        .sign(key),
  };
}

/** The gateway's AUTH_ISSUER and AUTH_AUDIENCE. */
export type TokenNames = { issuer?: string | undefined; audience?: string | undefined };

function publicHalf(jwk: JWK): JWK {
  const { d: _d, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, ...rest } = jwk;
  return rest;
}

export async function readKey(path: string): Promise<JWK | undefined> {
  try {
    return JSON.parse(await readFile(path, "utf8")) as JWK;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new Error(`${path} is not a readable key; remove it to get a new one`, { cause: error });
  }
}

export async function makeKey(path: string): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  const named: JWK = { ...jwk, alg: ALGORITHM, use: "sig", kid: await calculateJwkThumbprint(jwk) };
  await writeFile(path, JSON.stringify(named), { mode: 0o600, flag: "wx" });
  return named;
}
