import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { describe, expect, test } from "vitest";
import { AuthConfigError } from "../../../src/auth/issuers.ts";
import { verifyToken } from "../../../src/auth/verify.ts";

const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });
const stranger = await generateKeyPair("EdDSA");
const KEY = { ...(await exportJWK(publicKey)), alg: "EdDSA" };
const ENV = { AUTH_ISSUER: "issuer", AUTH_AUDIENCE: "edge", AUTH_JWKS: JSON.stringify({ keys: [KEY] }) };
const CLAIMS = { tenant: "acme", workspaces: ["web"], scopes: ["session:read"] };

type Changes = { issuer?: string; audience?: string; expires?: string; claims?: object };

function sign(
  { issuer = "issuer", audience = "edge", expires = "1h", claims = {} }: Changes,
  key = privateKey,
) {
  return new SignJWT({ ...CLAIMS, ...claims })
    .setProtectedHeader({ alg: "EdDSA" })
    .setSubject("alice")
    .setIssuer(issuer)
    .setAudience(audience)
    .setExpirationTime(expires)
    .sign(key);
}

const BEARER = { tenant: "acme", subject: "alice" };

describe("verifyToken", () => {
  test("reads the rights of a valid token's bearer", async () => {
    const verified = await verifyToken(ENV, await sign({}));
    expect(verified).toMatchObject({ ok: true, value: { ...BEARER, scopes: ["session:read"] } });
  });

  test("names the bearer of an expired token, whose signature is valid", async () => {
    const verified = await verifyToken(ENV, await sign({ expires: "-1h" }));
    expect(verified).toMatchObject({ ok: false, refusal: { reason: "ERR_JWT_EXPIRED", bearer: BEARER } });
  });

  test("names the bearer of a token for another audience", async () => {
    const verified = await verifyToken(ENV, await sign({ audience: "other" }));
    expect(verified).toMatchObject({ ok: false, refusal: { bearer: BEARER } });
  });

  test("names no bearer without a valid signature", async () => {
    const verified = await verifyToken(ENV, await sign({}, stranger.privateKey));
    expect(verified).toEqual({
      ok: false,
      refusal: { reason: "ERR_JWS_SIGNATURE_VERIFICATION_FAILED" },
    });
  });

  test.each([["an unknown issuer", { issuer: "other" }]])("refuses a token of %s", async (_name, changes) => {
    const verified = await verifyToken(ENV, await sign(changes));
    expect(verified).toEqual({ ok: false, refusal: { reason: "unknown issuer" } });
  });

  test("refuses text that is no token", async () => {
    expect(await verifyToken(ENV, "garbage")).toEqual({ ok: false, refusal: { reason: "unknown issuer" } });
  });

  test("tries every issuer of the claimed name", async () => {
    const issuer = (audience: string) => ({ issuer: "issuer", audience, jwks: { keys: [KEY] } });
    const env = { AUTH_ISSUERS: JSON.stringify([issuer("first"), issuer("second")]) };
    expect(await verifyToken(env, await sign({ audience: "second" }))).toMatchObject({ ok: true });
  });

  test("throws when no issuer is configured", async () => {
    await expect(verifyToken({}, await sign({}))).rejects.toThrow(AuthConfigError);
  });
});
