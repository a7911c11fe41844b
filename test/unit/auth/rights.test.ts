import { describe, expect, test } from "vitest";
import { readIssuers } from "../../../src/auth/issuers.ts";
import { readRights } from "../../../src/auth/rights.ts";

const KEY = { kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" };

function rightsOf(payload: Record<string, unknown>, more: object = {}) {
  const config = [{ issuer: "i", audience: "a", jwks: { keys: [KEY] }, ...more }];
  const [issuer] = readIssuers({ AUTH_ISSUERS: JSON.stringify(config) });
  if (!issuer) throw new Error("no issuer");
  const result = readRights({ exp: 1, ...payload }, issuer);
  return result.ok ? result.value : result.refusal;
}

const CLAIMS = { sub: "s", tenant: "t", workspaces: ["w"], scopes: ["session:read"] };
const RIGHTS = { subject: "s", tenant: "t", workspaces: ["w"], scopes: ["session:read"], expires: 1 };

describe("the claims of a token", () => {
  test.each<[string, object, object]>([
    ["as it is", {}, {}],
    ["with its id", { jti: "j" }, { jti: "j" }],
    ["scopes in one text", { scopes: "session:read share" }, { scopes: ["session:read", "share"] }],
    [
      "scopes under the other name",
      { scopes: undefined, scope: "session:prompt" },
      { scopes: ["session:prompt"] },
    ],
    ["scopes that are not ours", { scopes: ["session:read", "openid"] }, {}],
    ["scopes twice", { scopes: ["session:read", "session:read"] }, {}],
    ["no scopes", { scopes: undefined }, { scopes: [] }],
    ["no workspaces", { workspaces: undefined }, { workspaces: [] }],
    ["a pattern", { workspaces: ["team-*"] }, { workspaces: ["team-*"] }],
    ["a host", { scopes: ["host"] }, { scopes: ["host"] }],
  ])("give rights: %s", (_name, claims, rights) => {
    expect(rightsOf({ ...CLAIMS, ...claims })).toEqual({ ...RIGHTS, ...rights });
  });

  test.each<[string, object]>([
    ["no subject", { sub: undefined }],
    ["an empty subject", { sub: "" }],
    ["no tenant", { tenant: undefined }],
    ["a tenant that could be part of a workspace's name", { tenant: "a/b" }],
    ["a pattern with two stars", { workspaces: ["*a*"] }],
    ["workspaces that are no list", { workspaces: "w" }],
    ["scopes that are no list", { scopes: { host: true } }],
    ["a host that is a client too", { scopes: ["host", "session:read"] }],
    ["a host of two workspaces", { scopes: ["host"], workspaces: ["a", "b"] }],
    ["a host of any workspace", { scopes: ["host"], workspaces: ["*"] }],
    ["a host of none", { scopes: ["host"], workspaces: [] }],
  ])("are refused with %s", (_name, claims) => {
    expect(rightsOf({ ...CLAIMS, ...claims })).toEqual({ reason: expect.any(String) });
  });
});

describe("an issuer with its own claims", () => {
  const access = {
    claims: { subject: ["email", "common_name"] },
    grants: [
      {
        when: { email: "boss@acme.example" },
        tenant: "acme",
        workspaces: ["*"],
        scopes: ["workspace:admin"],
      },
      { when: { email: "*@acme.example" }, tenant: "acme", workspaces: ["web"], scopes: ["session:read"] },
      { when: { common_name: "runner" }, tenant: "acme", workspaces: ["web"], scopes: ["host"] },
    ],
  };

  test("gives the rights of the first matching grant", () => {
    const [boss, person, runner] = [
      { sub: "1", email: "boss@acme.example" },
      { sub: "2", email: "a@acme.example" },
      { sub: "", common_name: "runner" },
    ].map((claims) => rightsOf(claims, access));
    expect(boss).toMatchObject({
      subject: "boss@acme.example",
      scopes: ["workspace:admin"],
      workspaces: ["*"],
    });
    expect(person).toMatchObject({ subject: "a@acme.example", tenant: "acme", scopes: ["session:read"] });
    expect(runner).toMatchObject({ subject: "runner", scopes: ["host"] });
  });

  test("[I13] does not let a token choose its rights where a grant gives them", () => {
    const claims = { sub: "2", email: "a@acme.example", tenant: "other", scopes: ["workspace:admin"] };
    expect(rightsOf(claims, access)).toMatchObject({ tenant: "acme", scopes: ["session:read"] });
  });

  test("refuses a token without a grant", () => {
    for (const email of ["a@other.example", "a@acme.example.evil", undefined])
      expect(rightsOf({ ...CLAIMS, email }, access)).toEqual({ reason: "no grant matches" });
  });

  test("[I13] takes an email that the provider has not verified for no email", () => {
    const person = { sub: "2", email: "a@acme.example" };
    for (const email_verified of [undefined, true, "true"])
      expect(rightsOf({ ...person, email_verified }, access)).toMatchObject({ subject: "a@acme.example" });
    for (const email_verified of [false, "false", null, 1, "", "yes"]) {
      expect(rightsOf({ ...person, email_verified }, access)).toEqual({
        reason: "no grant matches, and the email is not verified",
      });
      // Other claims still count.
      const more = { ...CLAIMS, email: "a@acme.example", email_verified };
      expect(rightsOf(more, { claims: { subject: ["email", "sub"] } })).toMatchObject({ subject: "s" });
      expect(rightsOf(more, { claims: { subject: "email" } })).toHaveProperty("reason");
    }
  });

  test.each(["email", "upn"])("[I13] gives no rights to an address with a second @ in %s", (claim) => {
    const grant = (pattern: string) => ({
      grants: [{ when: { [claim]: pattern }, tenant: "t", workspaces: ["w"], scopes: ["share"] }],
    });
    const refusal = { reason: "no grant matches" };
    for (const address of [
      "eve@evil.example@acme.example",
      '"eve@evil.example"@acme.example',
      "@@acme.example",
    ])
      expect(rightsOf({ ...CLAIMS, [claim]: address }, grant("*@acme.example"))).toEqual(refusal);
    expect(rightsOf({ ...CLAIMS, [claim]: "eve@evil.example@x" }, grant("eve@*"))).toEqual(refusal);
    expect(rightsOf({ ...CLAIMS, [claim]: "eve@acme.example" }, grant("*@acme.example"))).toMatchObject({
      scopes: ["share"],
    });
    // A pattern without an @ says nothing about addresses.
    expect(rightsOf({ ...CLAIMS, [claim]: "a@b@c" }, grant("*"))).toMatchObject({ scopes: ["share"] });
  });

  test("matches one of several values of a claim", () => {
    const more = { grants: [{ when: { groups: "dev" }, tenant: "t", workspaces: ["w"], scopes: ["share"] }] };
    expect(rightsOf({ ...CLAIMS, groups: ["ops", "dev"] }, more)).toMatchObject({ scopes: ["share"] });
    expect(rightsOf({ ...CLAIMS, groups: ["ops"] }, more)).toHaveProperty("reason");
  });
});

describe("a wrong issuer configuration", () => {
  const issuer = { issuer: "i", audience: "a", jwks: { keys: [KEY] } };
  const listed = (...issuers: unknown[]) => ({ AUTH_ISSUERS: JSON.stringify(issuers) });
  test.each<[string, Parameters<typeof readIssuers>[0], RegExp]>([
    ["nothing at all", {}, /Nobody may sign/],
    ["no keys", { AUTH_JWKS: '{"keys":[]}', AUTH_ISSUER: "i", AUTH_AUDIENCE: "a" }, /Nobody may sign/],
    ["no JSON", { AUTH_ISSUERS: "[" }, /AUTH_ISSUERS is not JSON/],
    ["no JSON in short", { AUTH_JWKS: "x" }, /AUTH_JWKS is not JSON/],
    ["no audience in short", { AUTH_JWKS: JSON.stringify({ keys: [KEY] }), AUTH_ISSUER: "i" }, /audience/],
    ["no audience", listed({ ...issuer, audience: undefined }), /audience/],
    ["an empty audience", listed({ ...issuer, audience: "" }), /audience/],
    ["keys nowhere", listed({ ...issuer, jwks: undefined }), /jwks or jwksUrl/],
    ["keys in two places", listed({ ...issuer, jwksUrl: "https://x.example/" }), /jwks or jwksUrl/],
    ["keys over http", listed({ ...issuer, jwks: undefined, jwksUrl: "http://x.example/" }), /https/],
    ["a private key", listed({ ...issuer, jwks: { keys: [{ ...KEY, d: "x" }] } }), /private key/],
    ["a shared key", listed({ ...issuer, jwks: { keys: [{ kty: "oct", k: "x" }] } }), /public keys/],
    ["a shared algorithm", listed({ ...issuer, algorithms: ["HS256"] }), /algorithms/],
    ["no algorithm", listed({ ...issuer, algorithms: ["none"] }), /algorithms/],
    ["a typing error", listed({ ...issuer, algorithm: ["RS256"] }), /algorithm/],
    ["an unknown scope", listed({ ...issuer, grants: [{ scopes: ["admin"] }] }), /scopes/],
  ])("is refused: %s", (_name, vars, message) => {
    expect(() => readIssuers(vars)).toThrow(message);
  });
});
