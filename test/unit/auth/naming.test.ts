import { describe, expect, test } from "vitest";
import { AuthConfigError, readIssuers } from "../../../src/auth/issuers.ts";
import { readRights } from "../../../src/auth/rights.ts";

/** Subjects and token ids belong to their issuer. */

const KEY = { kty: "OKP", crv: "Ed25519", x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" };
const entry = (issuer: string, more: object = {}) => ({
  issuer,
  audience: "a",
  jwks: { keys: [KEY] },
  ...more,
});
const SHORT = { AUTH_ISSUER: "own", AUTH_AUDIENCE: "a", AUTH_JWKS: JSON.stringify({ keys: [KEY] }) };
const CLAIMS = { sub: "alice", jti: "1", tenant: "t", workspaces: ["w"], scopes: ["session:read"], exp: 1 };

function issuers(...listed: object[]) {
  return readIssuers({ AUTH_ISSUERS: JSON.stringify(listed) });
}

function names(issuer: ReturnType<typeof readIssuers>[number] | undefined, claims: object = {}) {
  if (!issuer) throw new Error("no issuer");
  const read = readRights({ ...CLAIMS, ...claims }, issuer);
  return read.ok ? [read.value.subject, read.value.jti] : read.refusal;
}

describe("the names of subjects and tokens", () => {
  test("are bare for an only issuer", () => {
    const [only] = issuers(entry("https://one"));
    expect(names(only)).toEqual(["alice", "1"]);
    expect(names(only, { sub: "auth0|5f7c" })).toEqual(["auth0|5f7c", "1"]);
  });

  test("are bare for the first issuer, and say the issuer for all others", () => {
    const [first, second, third] = issuers(
      entry("https://one"),
      entry("https://two"),
      entry("x", { alias: "corp" }),
    );
    expect(names(first)).toEqual(["alice", "1"]);
    expect(names(second)).toEqual(["https://two|alice", "https://two|1"]);
    expect(names(third)).toEqual(["corp|alice", "corp|1"]);
  });

  test("are bare for the issuer of the short form, also beside listed ones", () => {
    const read = readIssuers({ ...SHORT, AUTH_ISSUERS: JSON.stringify([entry("https://two")]) });
    const by = new Map(read.map((issuer) => [issuer.issuer, issuer]));
    expect(names(by.get("own"))).toEqual(["alice", "1"]);
    expect(names(by.get("https://two"))).toEqual(["https://two|alice", "https://two|1"]);
  });

  test("are shared by entries of one issuer with several audiences", () => {
    const [, second, third] = issuers(
      entry("one"),
      entry("two", { alias: "b" }),
      entry("two", { audience: "c" }),
    );
    expect([names(second), names(third)]).toEqual([
      ["b|alice", "b|1"],
      ["b|alice", "b|1"],
    ]);
  });

  test.each([{ sub: "corp|alice" }, { jti: "corp|1" }])("cannot be those of another issuer: %j", (claims) => {
    const [first] = issuers(entry("one"), entry("two", { alias: "corp" }));
    expect(names(first, claims)).toMatchObject({ reason: expect.stringContaining("another issuer") });
  });

  test.each([
    [entry("one", { alias: "x" }), entry("two", { alias: "x" })],
    [entry("one"), entry("two|three")],
    [entry("one", { alias: "a|b" })],
    [entry("one", { alias: "a" }), entry("one", { alias: "b" })],
  ])("need aliases that tell issuers apart (%#)", (...listed) => {
    expect(() => issuers(...listed)).toThrow(AuthConfigError);
  });
});

describe("a name of the gateway", () => {
  const [only, aliased] = issuers(entry("one"), entry("two", { alias: "corp" }));

  test.each(["share:1", "webhook:wh_1", "link:1", "login:1", "gateway", "gateway:x", "host:container"])(
    "cannot come from a user's token: %s",
    (sub) => {
      expect(names(only, { sub })).toEqual({
        reason: "the subject is a name of the gateway",
        bearer: { tenant: "t", subject: sub },
      });
      expect(names(aliased, { sub })).toMatchObject({ bearer: { tenant: "t", subject: `corp|${sub}` } });
    },
  );

  test("cannot be the id of a user's token", () => {
    expect(names(only, { jti: "share:1" })).toMatchObject({
      reason: "the token id is a name of the gateway",
    });
  });

  test("may be a host's in the token of a host, and only a host's", () => {
    expect(names(only, { sub: "host:1", scopes: ["host"] })).toEqual(["host:1", "1"]);
    expect(names(only, { sub: "share:1", scopes: ["host"] })).toHaveProperty("reason");
  });

  test.each(["gateways", "hosts", "alice@share:x"])("is none that only looks like one: %s", (sub) => {
    expect(names(only, { sub })).toEqual([sub, "1"]);
  });
});
