import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { type SecurityVars, securityFindings } from "../../../src/http/security-findings.ts";

const { publicKey } = generateKeyPairSync("ed25519");
const GOOD: SecurityVars = {
  AUTH_ISSUER: "acp-edge",
  AUTH_AUDIENCE: "acp-edge",
  AUTH_JWKS: "",
  AUTH_ISSUERS: JSON.stringify([
    {
      issuer: "https://login.example",
      audience: "acp-edge",
      jwks: { keys: [publicKey.export({ format: "jwk" })] },
      grants: [{ tenant: "acme", workspaces: ["*"], scopes: ["session:read"] }],
    },
  ]),
  SECRETS_KEY: Buffer.alloc(32, 7).toString("base64url"),
  RATE_LIMITER: {},
};

const troubles = (change: Partial<SecurityVars>, url = "https://acp.example/api/security") =>
  securityFindings({ ...GOOD, ...change }, url).flatMap(({ id, level }) =>
    level === "ok" ? [] : [`${id} ${level}`],
  );

test("a careful deployment has nothing to mend", () => {
  expect(troubles({})).toEqual([]);
});

test("each weakness is named, and no finding contains a key", () => {
  expect(troubles({}, "http://acp.example/")).toEqual(["encryption failed"]);
  expect(troubles({}, "http://127.0.0.1:8790/")).toEqual([]);
  expect(troubles({ PUBLIC_URL: "https://acp.example" }, "http://10.0.0.1/")).toEqual([]);
  expect(troubles({ SECRETS_KEY: "" })).toEqual(["secrets-key warning"]);
  expect(troubles({ SECRETS_KEY_PREVIOUS: Buffer.alloc(32, 8).toString("base64url") })).toEqual([
    "secrets-key warning",
  ]);
  expect(troubles({ RATE_LIMITER: undefined })).toEqual(["rate-limiter warning"]);
  expect(troubles({ ALLOWED_ORIGINS: "https://*" })).toEqual(["origins failed"]);
  expect(troubles({ ALLOWED_ORIGINS: "https://*.acme.example" })).toEqual([]);
  expect(troubles({ WEBHOOK_TARGETS: "any" })).toEqual(["webhook-targets warning"]);
  const short = {
    AUTH_ISSUERS: "",
    AUTH_JWKS: JSON.stringify({ keys: [publicKey.export({ format: "jwk" })] }),
  };
  expect(troubles(short)).toEqual(["issuer warning"]);
  expect(JSON.stringify(securityFindings(GOOD, "https://acp.example/"))).not.toContain(GOOD.SECRETS_KEY);
});
