import { env, exports } from "cloudflare:workers";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { AuditPage } from "../../../src/protocol/rest-tenant.ts";
import { subjectStub } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { JSON_TYPE } from "../peers/http-client.ts";
import { INITIALIZE } from "../routes/place.ts";
import { mint } from "../tokens.ts";
import { admin, ask } from "./fixtures.ts";

/** Two issuers of one tenant: equal subjects and token ids of different issuers are different people and tokens. */

const { publicKey, privateKey } = await generateKeyPair("EdDSA", { extractable: true });

beforeAll(async () => {
  const jwk = { ...(await exportJWK(publicKey)), kid: "corp", alg: "EdDSA" };
  env.AUTH_ISSUERS = JSON.stringify([
    { issuer: "https://corp.test", alias: "corp", audience: "edge", jwks: { keys: [jwk] } },
  ]);
});

afterAll(() => {
  delete env.AUTH_ISSUERS;
});

/** The same person's names at the gateway's own issuer and at the other. */
async function twins() {
  const tenant = `t-${crypto.randomUUID()}`;
  const claims = { tenant, sub: "alice", jti: "1", workspaces: ["w"] };
  const theirs = await new SignJWT({ ...claims, scopes: ["session:read", "session:prompt"] })
    .setProtectedHeader({ alg: "EdDSA", kid: "corp" })
    .setIssuer("https://corp.test")
    .setAudience("edge")
    .setExpirationTime("1h")
    .sign(privateKey);
  return { tenant, ours: await mint(claims), theirs };
}

const initialize = (bearer: string, connection?: string) =>
  exports.default.fetch("https://edge.test/acp", {
    method: "POST",
    headers: {
      ...JSON_TYPE,
      Authorization: `Bearer ${bearer}`,
      ...(connection !== undefined && { "Acp-Connection-Id": connection }),
    },
    body:
      connection === undefined ? INITIALIZE : '{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}',
  });

describe("two issuers of one tenant", () => {
  test.each([{ subject: "alice" }, { jti: "1" }])("share no revocation: %j", async (order) => {
    const { tenant, ours, theirs } = await twins();
    const status = async (bearer: string) => (await ask("GET", "/api/sessions", bearer)).status;
    const boss = await admin({ tenant });
    const { id } = (await (await ask("POST", "/api/revocations", boss, order)).json()) as { id: string };
    expect([await status(ours), await status(theirs)]).toEqual([401, 200]);
    await ask("DELETE", `/api/revocations/${id}`, boss);
    const [[kind, value]] = Object.entries(order) as [[string, string]];
    await ask("POST", "/api/revocations", boss, { [kind]: `corp|${value}` });
    await vi.waitFor(async () => expect([await status(ours), await status(theirs)]).toEqual([200, 401]));
  });

  test("share no connections and no quotas", async () => {
    setLimits({ socketsPerSubject: 1 });
    const { tenant, ours, theirs } = await twins();
    const opened = await initialize(ours);
    const connection = opened.headers.get("Acp-Connection-Id") as string;
    expect((await initialize(theirs, connection)).status).toBe(404);
    expect((await initialize(ours)).status).toBe(429);
    expect((await initialize(theirs)).status).toBe(200);
    const counted = (subject: string) => subjectStub(subject, tenant).countSockets();
    expect([await counted("alice"), await counted("corp|alice")]).toEqual([1, 1]);
  });
});

describe("a user's token with a name of the gateway", () => {
  test.each(["share:1", "webhook:1", "host:container", "gateway"])("is refused: %s", async (sub) => {
    const tenant = `t-${crypto.randomUUID()}`;
    const bearer = await mint({ tenant, sub, workspaces: ["w"] });
    expect((await ask("GET", "/api/sessions", bearer)).status).toBe(401);
    const root = { tenant, subject: "r", workspaces: [], scopes: ["tenant:admin"] as const, expires: 0 };
    await vi.waitFor(async () => {
      const page = (await env.TENANT_DO.getByName(tenant).auditPage(root, {
        after: 0,
        limit: 9,
      })) as AuditPage;
      expect(page.entries).toMatchObject([
        { kind: "token.refused", subject: sub, detail: { reason: "the subject is a name of the gateway" } },
      ]);
    });
  });
});
