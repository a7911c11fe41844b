import { createExecutionContext, runDurableObjectAlarm } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { app } from "../../src/http/app.ts";
import { sessionCookie } from "../../src/http/middleware/credential.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { RESUMABLE } from "../../src/protocol/resumable-wire.ts";
import { openSession } from "./fixtures.ts";
import { setLimitsOf } from "./limits.ts";
import { Client } from "./peers/client.ts";
import { INITIALIZE, JSON_TYPE } from "./peers/http-client.ts";
import { ALL_OF_A_CLIENT, mint } from "./tokens.ts";

afterEach(() => {
  vi.useRealTimers();
});

const PAGE = "https://app.example.com";
const UPGRADE = { Upgrade: "websocket" };
const workspaces = ["w-edges"];

/** Sends a request to the Worker with the settings of a deployment. */
async function ask(path: string, init: RequestInit = {}, more: Partial<Env> = {}): Promise<Response> {
  const request = new Request(`https://edge.test${path}`, init);
  return app.fetch(request, { ...env, ...more }, createExecutionContext());
}

async function bearer(sub = `user-${crypto.randomUUID()}`): Promise<{ Authorization: string }> {
  return { Authorization: `Bearer ${await mint({ sub, workspaces, scopes: ALL_OF_A_CLIENT })}` };
}

const codeOf = async (response: Response) => {
  const body = (await response.json()) as { error: { code: string } };
  return [response.status, body.error.code];
};

describe("a page of a foreign origin", () => {
  const upgradeFrom = async (origin: string | null, more: Partial<Env> = {}) => {
    const headers = { ...UPGRADE, ...(await bearer()), ...(origin !== null && { Origin: origin }) };
    const response = await ask("/acp", { headers }, more);
    response.webSocket?.accept();
    response.webSocket?.close();
    return response.status;
  };

  test("opens no socket unless its origin is allowed", async () => {
    expect(await upgradeFrom(null)).toBe(101);
    expect(await upgradeFrom("https://edge.test")).toBe(101);
    expect(await upgradeFrom(PAGE)).toBe(403);
    expect(await upgradeFrom("null")).toBe(403);
    const ALLOWED_ORIGINS = "https://other.test, https://*.example.com";
    expect(await upgradeFrom(PAGE, { ALLOWED_ORIGINS })).toBe(101);
    expect(await upgradeFrom("https://example.com.evil.test", { ALLOWED_ORIGINS })).toBe(403);
  });

  test("gets nothing with a cookie, whether its origin is allowed or not", async () => {
    const token = await mint({ workspaces });
    const headers = { Cookie: `${sessionCookie("https://edge.test/")}=${token}` };
    expect((await ask("/api/sessions", { headers })).status).toBe(200);
    const foreign = { headers: { ...headers, Origin: PAGE } };
    expect((await ask("/api/sessions", foreign)).status).toBe(403);
    expect((await ask("/api/sessions", foreign, { ALLOWED_ORIGINS: PAGE })).status).toBe(403);
  });

  test("may send a token if its origin is allowed, and read the headers a client needs", async () => {
    const preflight = {
      method: "OPTIONS",
      headers: { Origin: PAGE, "Access-Control-Request-Method": "POST" },
    };
    const allowed = await ask("/acp", preflight, { ALLOWED_ORIGINS: PAGE });
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get("Access-Control-Allow-Origin")).toBe(PAGE);
    expect(allowed.headers.get("Access-Control-Allow-Headers")).toContain("Acp-Connection-Id");
    expect(allowed.headers.get("Access-Control-Allow-Credentials")).toBeNull();
    expect((await ask("/acp", preflight)).headers.get("Access-Control-Allow-Origin")).toBeNull();

    const headers = { ...JSON_TYPE, Origin: PAGE, ...(await bearer()) };
    const post = { method: "POST", headers, body: INITIALIZE };
    const initialized = await ask("/acp", post, { ALLOWED_ORIGINS: PAGE });
    expect(initialized.status).toBe(200);
    expect(initialized.headers.get("Access-Control-Expose-Headers")).toContain("Acp-Connection-Id");
    expect(initialized.headers.get("Acp-Connection-Id")).not.toBeNull();
  });
});

describe("a response", () => {
  test("has the security headers, even when it is an error", async () => {
    for (const path of ["/", "/api/sessions", "/nothing"]) {
      const { headers } = await ask(path);
      expect(headers.get("X-Content-Type-Options")).toBe("nosniff");
      expect(headers.get("X-Frame-Options")).toBe("DENY");
      expect(headers.get("Content-Security-Policy")).toContain("default-src 'none'");
      expect(headers.get("Strict-Transport-Security")).not.toBeNull();
      expect(headers.get("Referrer-Policy")).toBe("no-referrer");
    }
  });

  test("hides internal errors", async () => {
    const broken = { INDEX: undefined } as unknown as Partial<Env>;
    const response = await ask("/api/sessions", { headers: await bearer() }, broken);
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual({ error: { code: "internal", message: "Internal error" } });
  });
});

describe("a request that is too long", () => {
  test("is refused for its URL, its headers or its body", async () => {
    const headers = await bearer();
    const long = "x".repeat(DEFAULT_LIMITS.urlChars);
    expect(await codeOf(await ask(`/api/sessions?cursor=${long}`, { headers }))).toEqual([414, "too_large"]);
    const many = { ...headers, "X-Long": "x".repeat(DEFAULT_LIMITS.headerChars) };
    expect(await codeOf(await ask("/api/sessions", { headers: many }))).toEqual([431, "too_large"]);
    const body = JSON.stringify({ value: "x".repeat(DEFAULT_LIMITS.bodyBytes) });
    const put = { method: "PUT", headers: { ...headers, ...JSON_TYPE }, body };
    expect(await codeOf(await ask("/api/workspaces/w-edges", put))).toEqual([413, "too_large"]);
  });
});

describe("the rate limiter", () => {
  test("counts per address and per subject", async () => {
    const keys: string[] = [];
    let full = "";
    const limit = async ({ key }: { key: string }) => {
      keys.push(key);
      return { success: !full || !key.startsWith(full) };
    };
    const RATE_LIMITER = { limit } as RateLimit;
    const headers = { "CF-Connecting-IP": "192.0.2.1", ...(await bearer("ann")) };
    expect((await ask("/api/sessions", { headers }, { RATE_LIMITER })).status).toBe(200);
    expect(keys).toEqual(["address:192.0.2.1", 'subject:["acme","ann"]']);
    for (full of ["address", "subject"]) {
      const refused = await ask("/api/sessions", { headers }, { RATE_LIMITER });
      expect(refused.headers.get("Retry-After")).toBe("10");
      expect(await codeOf(refused)).toEqual([429, "too_many_requests"]);
    }
  });
});

describe("one user", () => {
  test("has a limited number of connections, and closed ones make room", async () => {
    await setLimitsOf("acme", { socketsPerSubject: 2 });
    const headers = { ...UPGRADE, ...(await bearer()) };
    const open = async () => {
      const response = await ask("/acp", { headers });
      if (!response.webSocket) return response;
      await new Client(response.webSocket).request("initialize", { protocolVersion: 1 });
      return response;
    };
    const first = await open();
    await open();
    expect((await open()).status).toBe(429);
    const { Authorization } = headers;
    const post = {
      method: "POST",
      headers: { ...JSON_TYPE, Authorization },
      body: INITIALIZE,
    };
    expect(await codeOf(await ask("/acp", post))).toEqual([429, "too_many_requests"]);
    first.webSocket?.close();
    await vi.waitFor(async () => expect((await open()).status).toBe(101));
  });

  test("opens a limited number of sessions an hour", async () => {
    const { client } = await openSession();
    await setLimitsOf("acme", { sessionsPerHour: 1 });
    const { response } = await client.request("session/new", { cwd: "/", mcpServers: [] });
    expect(response.error).toMatchObject({ code: -32004, data: { retryAfterMs: expect.any(Number) } });
  });
});

describe("a client that never initializes", () => {
  test.each([{}, { "Sec-WebSocket-Protocol": RESUMABLE }])("is closed %j", async (more) => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const response = await ask("/acp", { headers: { ...UPGRADE, ...(await bearer()), ...more } });
    const ws = response.webSocket as WebSocket;
    ws.accept();
    const closed = new Promise<number>((resolve) => {
      ws.addEventListener("close", ({ code }) => resolve(code));
    });
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.handshakeMs);
    const id = response.headers.get("Acp-Connection-Id") as string;
    expect(await runDurableObjectAlarm(env.ACP_CONNECTION_DO.getByName(id))).toBe(true);
    expect(await closed).toBe(1002);
  });

  test("stays open once it has initialized", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const response = await ask("/acp", { headers: { ...UPGRADE, ...(await bearer()) } });
    const client = new Client(response.webSocket as WebSocket);
    await client.request("initialize", { protocolVersion: 1 });
    vi.setSystemTime(Date.now() + DEFAULT_LIMITS.handshakeMs);
    const id = response.headers.get("Acp-Connection-Id") as string;
    await runDurableObjectAlarm(env.ACP_CONNECTION_DO.getByName(id));
    expect((await client.request("session/list", {})).response).toHaveProperty("result");
  });
});
