import { UnsecuredJWT } from "jose";
import { expect, test } from "vitest";
import { describeExpiry, tokenTrouble } from "../../../../src/cli/gateway/token-trouble.ts";

const NOW = Date.UTC(2026, 0, 1);
const seconds = (hours: number) => NOW / 1000 + hours * 3600;
const GOOD = {
  iss: "acp-edge",
  aud: "acp-edge",
  tenant: "t",
  scopes: ["session:read"],
  exp: seconds(1),
};
const token = (change: object = {}) => new UnsecuredJWT({ ...GOOD, ...change }).encode();

test.each([
  ["no JWT", "nonsense", "not a JWT"],
  ["no expiry", token({ exp: undefined }), "no expiry time"],
  ["a past expiry", token({ exp: seconds(-1) }), "It expired 2025-12-31 23:00"],
  ["a future start", token({ nbf: seconds(0.5) }), "not valid before 2026-01-01 00:30"],
  ["another audience", token({ aud: "other" }), "AUTH_AUDIENCE"],
  ["another issuer", token({ iss: "other" }), "AUTH_ISSUER"],
  ["no tenant", token({ tenant: undefined }), "names no tenant"],
  ["no scope to read", token({ scopes: ["host"] }), "lacks the scope session:read; it has host"],
  ["nothing wrong in its claims", token(), "AUTH_JWKS"],
])("a refused token with %s is explained", (_, text, explanation) => {
  expect(tokenTrouble(text, 0, NOW)).toContain(explanation);
});

test("the gateway's clock decides whether a token has expired", () => {
  expect(tokenTrouble(token(), 2 * 3_600_000, NOW)).toContain("7200 s ahead of the gateway's");
  expect(tokenTrouble(token({ exp: seconds(1) }), -2 * 3_600_000, NOW)).toContain("It expired");
});

test("the expiry of a valid token is shown", () => {
  expect(describeExpiry(token())).toBe(", valid until 2026-01-01 01:00");
  expect(describeExpiry(token({ exp: undefined }))).toBe("");
});
