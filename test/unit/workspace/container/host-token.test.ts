import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  type JWK,
  jwtVerify,
} from "jose";
import { expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import { mintHostToken } from "../../../../src/workspace/container/host-token.ts";

const { containerTokenMs } = DEFAULT_LIMITS;
const NAMES = { AUTH_ISSUER: "issuer", AUTH_AUDIENCE: "audience" };

async function key(alg: string): Promise<{ secret: JWK; jwks: { keys: JWK[] } }> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const secret = { ...(await exportJWK(privateKey)), alg };
  const named = { ...secret, kid: await calculateJwkThumbprint(secret) };
  return { secret: named, jwks: { keys: [{ ...(await exportJWK(publicKey)), alg, kid: named.kid }] } };
}

test.each(["EdDSA", "ES256"])("a host token is valid for its workspace alone (%s)", async (alg) => {
  const { secret, jwks } = await key(alg);
  const env = { ...NAMES, HOST_SIGNING_KEY: JSON.stringify(secret) };
  const token = await mintHostToken(env, { tenant: "acme", workspace: "api" }, containerTokenMs);
  const { payload } = await jwtVerify(token, createLocalJWKSet(jwks), {
    issuer: "issuer",
    audience: "audience",
  });
  expect(payload).toMatchObject({
    sub: "host:container",
    tenant: "acme",
    workspaces: ["api"],
    scopes: ["host"],
    jti: expect.any(String),
  });
  const lifeMs = 1000 * ((payload.exp as number) - (payload.iat as number));
  expect(Math.abs(lifeMs - containerTokenMs)).toBeLessThanOrEqual(1000);
});

test.each(["*", "team-*"])(
  "a workspace called %s gets no host token because its name is a pattern",
  async (workspace) => {
    const { secret } = await key("EdDSA");
    const env = { ...NAMES, HOST_SIGNING_KEY: JSON.stringify(secret) };
    await expect(mintHostToken(env, { tenant: "acme", workspace }, containerTokenMs)).rejects.toThrow(
      "no host token",
    );
  },
);
