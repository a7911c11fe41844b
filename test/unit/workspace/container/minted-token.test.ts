import { calculateJwkThumbprint, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { HOST_ISSUER } from "../../../../src/auth/host-issuer.ts";
import { readIssuers } from "../../../../src/auth/issuers.ts";
import { verifyToken } from "../../../../src/auth/verify.ts";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import { mintHostToken } from "../../../../src/workspace/container/minted-token.ts";

const { containerTokenMs } = DEFAULT_LIMITS;
const PLACE = { tenant: "acme", workspace: "api", host: "container" };

async function key(alg: string): Promise<{ secret: JWK; shared: JWK }> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const secret = { ...(await exportJWK(privateKey)), alg };
  const named = { ...secret, kid: await calculateJwkThumbprint(secret) };
  return { secret: named, shared: { ...(await exportJWK(publicKey)), alg, kid: named.kid } };
}

const people = await key("EdDSA");
const NAMES = { AUTH_ISSUER: "issuer", AUTH_AUDIENCE: "audience" };
const AUTH = { ...NAMES, AUTH_JWKS: JSON.stringify({ keys: [people.shared] }) };

test.each(["EdDSA", "ES256", "ES384"])(
  "a host token is valid for its workspace and name alone (%s)",
  async (alg) => {
    const { secret } = await key(alg);
    const HOST_SIGNING_KEY = JSON.stringify(secret);
    const { token, jti, expires } = await mintHostToken(HOST_SIGNING_KEY, PLACE, containerTokenMs);
    expect(await verifyToken({ ...AUTH, HOST_SIGNING_KEY }, token)).toEqual({
      ok: true,
      value: {
        tenant: "acme",
        subject: "host:container:api",
        workspaces: ["api"],
        scopes: ["host"],
        host: "container",
        jti,
        expires: Math.floor(expires / 1000),
      },
    });
    expect(Math.abs(expires - Date.now() - containerTokenMs)).toBeLessThanOrEqual(5000);
    // Without the key, nobody vouches for the token.
    expect(await verifyToken(AUTH, token)).toMatchObject({ ok: false });
  },
);

test("each host token has an id of its own", async () => {
  const { secret } = await key("EdDSA");
  const mint = () => mintHostToken(JSON.stringify(secret), PLACE, containerTokenMs);
  expect((await mint()).jti).not.toBe((await mint()).jti);
});

test.each(["*", "team-*"])(
  "a workspace called %s gets no host token because its name is a pattern",
  async (workspace) => {
    const { secret } = await key("EdDSA");
    await expect(
      mintHostToken(JSON.stringify(secret), { ...PLACE, workspace }, containerTokenMs),
    ).rejects.toThrow("no host token");
  },
);

describe("a stolen HOST_SIGNING_KEY", () => {
  const forge = async (secret: JWK, claims: object, issuer: string, audience: string) =>
    new SignJWT({ tenant: "acme", workspaces: ["api"], ...claims })
      .setProtectedHeader({ alg: "EdDSA", kid: secret.kid as string })
      .setSubject("root")
      .setIssuer(issuer)
      .setAudience(audience)
      .setExpirationTime("1h")
      .sign(await importJWK(secret, "EdDSA"));

  test.each([
    [["workspace:admin"]],
    [["tenant:admin"]],
    [["session:read"]],
    [["host", "workspace:admin"]],
    [[]],
  ])("[I13] signs no token with the scopes %j", async (scopes) => {
    const { secret } = await key("EdDSA");
    const env = { ...AUTH, HOST_SIGNING_KEY: JSON.stringify(secret) };
    for (const [issuer, audience] of [
      [HOST_ISSUER, HOST_ISSUER],
      ["issuer", "audience"],
    ] as const)
      expect(await verifyToken(env, await forge(secret, { scopes }, issuer, audience))).toMatchObject({
        ok: false,
      });
  });

  test("signs no host token for several workspaces", async () => {
    const { secret } = await key("EdDSA");
    const env = { ...AUTH, HOST_SIGNING_KEY: JSON.stringify(secret) };
    for (const workspaces of [["*"], ["a", "b"], []]) {
      const token = await forge(secret, { scopes: ["host"], workspaces }, HOST_ISSUER, HOST_ISSUER);
      expect(await verifyToken(env, token)).toMatchObject({ ok: false });
    }
  });
});

describe("a configuration is refused", () => {
  test.each(["AUTH_JWKS", "AUTH_ISSUERS"])("in which the key is also one of %s", async (variable) => {
    const { secret, shared } = await key("EdDSA");
    const { kid: _, ...unnamed } = shared;
    const keys = { keys: [people.shared, unnamed] };
    const env =
      variable === "AUTH_JWKS"
        ? { ...NAMES, AUTH_JWKS: JSON.stringify(keys) }
        : { ...AUTH, AUTH_ISSUERS: JSON.stringify([{ issuer: "i", audience: "a", jwks: keys }]) };
    expect(() => readIssuers({ ...env, HOST_SIGNING_KEY: JSON.stringify(secret) })).toThrow(
      /make a key for hosts alone/,
    );
    expect(() => readIssuers(env)).not.toThrow();
  });

  test("in which another issuer has the name of the gateway's own", () => {
    expect(() => readIssuers({ ...AUTH, AUTH_ISSUER: HOST_ISSUER })).toThrow(/reserved/);
  });

  test.each(["x", "{}", JSON.stringify(people.shared)])("in which the key is %s", (HOST_SIGNING_KEY) => {
    expect(() => readIssuers({ ...AUTH, HOST_SIGNING_KEY })).toThrow(/not a private JSON Web Key/);
  });
});
