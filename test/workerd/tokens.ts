import { env } from "cloudflare:workers";
import { importJWK, type JWK, SignJWT, UnsecuredJWT } from "jose";

/** The claims of a token, valid or not. */
export type Claims = {
  tenant?: string;
  sub?: string;
  workspaces?: string[];
  scopes?: string[];
  iss?: string;
  aud?: string;
  jti?: string;
  host?: string;
  /** Seconds from now. */
  exp?: number | null;
  nbf?: number;
};

export const CONTROLLER = ["session:read", "session:prompt", "permission:answer"];
export const WORKSPACE_ADMIN = [...CONTROLLER, "workspace:admin", "share"];
export const ALL_OF_A_CLIENT = [...WORKSPACE_ADMIN, "tenant:admin"];

export async function token(claims: {
  workspace: string;
  scopes?: string[];
  tenant?: string;
  subject?: string;
  jti?: string;
}): Promise<string> {
  const { workspace, tenant = "acme", subject = "someone", scopes = CONTROLLER, jti } = claims;
  // The token lasts for a week because tests let hours pass.
  const exp = 7 * 24 * 3600;
  return mint({
    tenant,
    sub: subject,
    workspaces: [workspace],
    scopes,
    exp,
    ...(jti !== undefined && { jti }),
  });
}

/** The id of the one token that the hosts of a workspace have. */
export const hostTokenId = (workspace: string) => `hosts-of-${workspace}`;

export async function mint(claims: Claims): Promise<string> {
  const key = await importJWK(JSON.parse(env.TEST_PRIVATE_KEY) as JWK, "EdDSA");
  return new SignJWT(payload(claims)).setProtectedHeader({ alg: "EdDSA", kid: "test" }).sign(key);
}

/** A token signed with a secret everybody knows: the public key. */
export async function mintHmac(claims: Claims): Promise<string> {
  const [jwk] = (JSON.parse(env.AUTH_JWKS) as { keys: [JWK] }).keys;
  const secret = new TextEncoder().encode(jwk.x);
  return new SignJWT(payload(claims)).setProtectedHeader({ alg: "HS256", kid: "test" }).sign(secret);
}

export function mintUnsigned(claims: Claims): string {
  return new UnsecuredJWT(payload(claims)).encode();
}

function payload({ exp = 3600, nbf, ...claims }: Claims): Record<string, unknown> {
  const now = Math.floor(Date.now() / 1000);
  return {
    iss: "acp-edge",
    aud: "acp-edge",
    tenant: "acme",
    sub: "someone",
    workspaces: [],
    scopes: CONTROLLER,
    ...claims,
    ...(exp === null ? {} : { exp: now + exp }),
    ...(nbf === undefined ? {} : { nbf: now + nbf }),
  };
}
