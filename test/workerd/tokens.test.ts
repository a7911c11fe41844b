import { createExecutionContext, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterEach, describe, expect, test, vi } from "vitest";
import { app } from "../../src/http/app.ts";
import { ASK_ALWAYS } from "../../src/protocol/permission-policy.ts";
import type { WorkspaceState } from "../../src/workspace/workspace-state.ts";
import { events, openSession, sessionStub, workspaceName, workspaceStub } from "./fixtures.ts";
import { Host } from "./peers/host.ts";
import { Peer } from "./peers/peer.ts";
import { mint } from "./tokens.ts";

const ORIGIN = "https://edge.test";
const workspace = () => workspaceName();

async function ask(path: string, headers: Record<string, string> = {}, init: RequestInit = {}) {
  return exports.default.fetch(`${ORIGIN}${path}`, { ...init, headers });
}

/** The status of a request. A socket that was opened is closed again. */
async function status(path: string, headers: Record<string, string>, init: RequestInit = {}) {
  const response = await ask(path, headers, init);
  response.webSocket?.accept();
  response.webSocket?.close();
  await response.body?.cancel();
  return response.status;
}

const UPGRADE = { Upgrade: "websocket" };

describe("a token in a request", () => {
  test("may be in a header, the query, a subprotocol, Cloudflare's header or a cookie", async () => {
    const token = await mint({ workspaces: [workspace()] });
    expect(await status("/api/sessions", { Authorization: `Bearer ${token}` })).toBe(200);
    expect(await status(`/api/sessions?token=${token}`, {})).toBe(200);
    expect(await status("/api/sessions", { "Cf-Access-Jwt-Assertion": token })).toBe(200);
    expect(await status("/api/sessions", { Cookie: `a=b; __Host-acp_edge_session=${token}` })).toBe(200);
    const protocols = { "Sec-WebSocket-Protocol": `acp-edge, acp-edge.token.${token}` };
    expect(await status("/acp", { ...UPGRADE, ...protocols })).toBe(101);
  });

  test("is never echoed in the agreed subprotocol", async () => {
    const token = await mint({ workspaces: [workspace()] });
    const secret = `acp-edge.token.${token}`;
    for (const [offered, agreed] of [
      [`acp-edge, ${secret}`, "acp-edge"],
      [`${secret},acp-edge`, "acp-edge"],
      [secret, null],
    ] as const) {
      const response = await ask("/acp", { ...UPGRADE, "Sec-WebSocket-Protocol": offered });
      expect(response.status).toBe(101);
      expect(response.headers.get("Sec-WebSocket-Protocol")).toBe(agreed);
      expect(response.headers.get("Acp-Connection-Id")).toMatch(/^[0-9a-f-]{36}$/);
      response.webSocket?.accept();
      response.webSocket?.close();
    }
    const plain = await ask("/acp", { ...UPGRADE, Authorization: `Bearer ${token}` });
    expect(plain.headers.get("Sec-WebSocket-Protocol")).toBeNull();
    plain.webSocket?.accept();
    plain.webSocket?.close();
  });

  test("is valid within the clock skew and no longer", async () => {
    const at = async (claims: object) => {
      const token = await mint({ workspaces: [workspace()], ...claims });
      return status("/api/sessions", { Authorization: `Bearer ${token}` });
    };
    expect([await at({ exp: -3 }), await at({ exp: -7 })]).toEqual([200, 401]);
    expect([await at({ nbf: 3 }), await at({ nbf: 7 })]).toEqual([200, 401]);
    expect(await at({ exp: null })).toBe(401);
  });
});

describe("the cookie of the console", () => {
  const login = (token: string, headers = {}, url = ORIGIN) =>
    exports.default.fetch(`${url}/api/login`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...headers },
      body: JSON.stringify({ token }),
    });

  test("is out of reach of scripts and other sites, and expires with the token", async () => {
    const token = await mint({ workspaces: ["w"], exp: 600 });
    const response = await login(token);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ tenant: "acme", subject: "someone", workspaces: ["w"] });
    const [cookie, ...attributes] = (response.headers.get("Set-Cookie") ?? "").split("; ");
    expect(cookie).toBe(`__Host-acp_edge_session=${token}`);
    const maxAge = attributes.find((attribute) => attribute.startsWith("Max-Age="))?.slice(8);
    expect(Number(maxAge)).toBeGreaterThan(590);
    expect(attributes).toEqual(["Path=/", `Max-Age=${maxAge}`, "HttpOnly", "SameSite=Strict", "Secure"]);
    expect(await status("/api/sessions", { Cookie: cookie as string })).toBe(200);
  });

  test("is allowed over plain HTTP where there is no TLS", async () => {
    const response = await login(await mint({ workspaces: ["w"] }), {}, "http://127.0.0.1:8790");
    expect(response.headers.get("Set-Cookie")).toMatch(/^acp_edge_session=/);
    expect(response.headers.get("Set-Cookie")).not.toContain("Secure");
  });

  test("is not set over plain HTTP to another machine", async () => {
    const response = await login(await mint({ workspaces: ["w"] }), {}, "http://edge.test");
    expect([response.status, response.headers.get("Set-Cookie")]).toEqual([403, null]);
  });

  test.each([{ jti: crypto.randomUUID() }, {}])(
    "is worth nothing after logout, wherever a copy is: %j",
    async (id) => {
      const sub = crypto.randomUUID();
      const [token, other] = [
        await mint({ workspaces: ["w"], sub, ...id }),
        await mint({ workspaces: ["w"], sub, exp: 99 }),
      ];
      const Cookie = `__Host-acp_edge_session=${token}`;
      const socket = await Peer.connect("/acp", token);
      expect(await status("/api/logout", { Cookie }, { method: "POST" })).toBe(204);
      expect(await socket.closed).toMatchObject({ code: 4401 });
      expect(await status("/api/sessions", { Cookie })).toBe(401);
      expect(await status("/api/sessions", { Authorization: `Bearer ${token}` })).toBe(401);
      expect(await status("/api/sessions", { Authorization: `Bearer ${other}` })).toBe(200);
    },
  );

  test("of a link is removed by a logout that leaves the link to others", async () => {
    const { sessionId, workspace: name } = await openSession();
    const sharer = await mint({ workspaces: [name], scopes: ["session:read", "share"] });
    const made = await ask(
      "/api/shares",
      { Authorization: `Bearer ${sharer}`, "Content-Type": "application/json" },
      { method: "POST", body: JSON.stringify({ session: sessionId }) },
    );
    const { token } = (await made.json()) as { token: string };
    const Cookie = `__Host-acp_edge_session=${token}`;
    expect(await status("/api/logout", { Cookie }, { method: "POST" })).toBe(204);
    expect(await status(`/api/sessions/${sessionId}`, { Cookie })).toBe(200);
    // What the sharer made stays when the sharer logs out.
    await status("/api/logout", { Cookie: `__Host-acp_edge_session=${sharer}` }, { method: "POST" });
    expect(await status("/api/sessions", { Authorization: `Bearer ${sharer}` })).toBe(401);
    expect(await status(`/api/sessions/${sessionId}`, { Cookie })).toBe(200);
  });

  test("and everything that it opens is kept in no cache", async () => {
    const bearer = { Authorization: `Bearer ${await mint({ workspaces: ["w"] })}` };
    const kept = async (response: Response) => response.headers.get("Cache-Control");
    expect(await kept(await login(await mint({ workspaces: ["w"] })))).toBe("no-store");
    expect(await kept(await login("garbage"))).toBe("no-store");
    expect(await kept(await ask("/api/sessions", bearer))).toBe("no-store");
    expect(await kept(await ask("/api/sessions"))).toBe("no-store");
    expect(await kept(await ask("/answer?link=x"))).toBe("no-store");
    const live = await ask("/api/workspaces/w", { ...bearer, Accept: "text/event-stream" });
    expect(await kept(live)).toBe("no-store, no-transform");
    await live.body?.cancel();
  });

  test("cannot be set for hosts, with bad tokens or by foreign pages", async () => {
    const refused = async (response: Response) => [response.status, response.headers.get("Set-Cookie")];
    const host = await mint({ workspaces: ["w"], scopes: ["host"] });
    expect(await refused(await login(host))).toEqual([403, null]);
    expect(await refused(await login("garbage"))).toEqual([401, null]);
    expect(await refused(await login("a; Path=/x"))).toEqual([400, null]);
    const good = await mint({ workspaces: ["w"] });
    expect(await refused(await login(good, { Origin: "https://evil.example" }))).toEqual([403, null]);
  });

  test("can be removed", async () => {
    const response = await ask("/api/logout", {}, { method: "POST" });
    expect(response.status).toBe(204);
    expect(response.headers.get("Set-Cookie")).toContain("__Host-acp_edge_session=; Path=/; Max-Age=0;");
    expect(await status("/api/logout", { Origin: "https://evil.example" }, { method: "POST" })).toBe(403);
  });

  test("works for our own page only, and for no page that names another origin", async () => {
    const cookie = { Cookie: `__Host-acp_edge_session=${await mint({ workspaces: [workspace()] })}` };
    const remove = (headers: Record<string, string>) =>
      status(`/api/sessions/${crypto.randomUUID()}/queue/t`, { ...cookie, ...headers }, { method: "DELETE" });
    const connect = (headers: Record<string, string>) =>
      status("/acp", { ...UPGRADE, ...cookie, ...headers });
    for (const [headers, may] of [
      [{ Origin: ORIGIN }, true],
      [{ "Sec-Fetch-Site": "same-origin" }, true],
      [{}, false],
      [{ Origin: "https://evil.example" }, false],
      [{ Origin: "null" }, false],
      [{ Origin: "http://edge.test" }, false],
      [{ "Sec-Fetch-Site": "same-site" }, false],
      [{ Origin: "https://evil.example", "Sec-Fetch-Site": "same-origin" }, false],
    ] as const) {
      expect([headers, await remove(headers)]).toEqual([headers, may ? 404 : 403]);
      expect([headers, await connect(headers)]).toEqual([headers, may ? 101 : 403]);
    }
    expect(await status("/api/sessions", { ...cookie, Origin: "https://evil.example" })).toBe(403);
    expect(await status("/api/sessions", cookie)).toBe(200);
  });

  test("has the same limits as a token of Cloudflare Access, which a program may send", async () => {
    const access = { "Cf-Access-Jwt-Assertion": await mint({ workspaces: [workspace()] }) };
    expect(await status("/acp", { ...UPGRADE, ...access })).toBe(101);
    expect(await status("/acp", { ...UPGRADE, ...access, Origin: ORIGIN })).toBe(101);
    expect(await status("/acp", { ...UPGRADE, ...access, Origin: "https://evil.example" })).toBe(403);
  });
});

describe("an issuer", () => {
  const request = (vars: Partial<Env>, token?: string) =>
    app.request(
      "/api/sessions",
      { headers: token === undefined ? {} : { Authorization: `Bearer ${token}` } },
      { ...env, ...vars },
      createExecutionContext(),
    );

  afterEach(() => vi.restoreAllMocks());

  test("can be Cloudflare Access by configuration alone", async () => {
    const { publicKey, privateKey } = await generateKeyPair("RS256", { extractable: true });
    const issuer = "https://acme.cloudflareaccess.com";
    const AUTH_ISSUERS = JSON.stringify([
      {
        issuer,
        audience: "f00d",
        jwks: { keys: [{ ...(await exportJWK(publicKey)), kid: "k", alg: "RS256", use: "sig" }] },
        algorithms: ["RS256"],
        claims: { subject: ["email", "common_name"] },
        grants: [
          { when: { email: "*@acme.example" }, tenant: "acme", workspaces: ["*"], scopes: ["session:read"] },
        ],
      },
    ]);
    const sign = (email: string, audience = ["f00d"], more = {}) =>
      new SignJWT({ email, type: "app", identity_nonce: "x", ...more })
        .setProtectedHeader({ alg: "RS256", kid: "k" })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject("7335d417-61da-459d-899c-0a01c76a2f94")
        .setIssuedAt()
        .setExpirationTime("1h")
        .sign(privateKey);
    const vars = { AUTH_ISSUERS };
    expect((await request(vars, await sign("a@acme.example"))).status).toBe(200);
    expect((await request(vars, await sign("a@acme.example", ["beef"]))).status).toBe(401);
    expect((await request(vars, await sign("a@evil.example"))).status).toBe(401);
    expect((await request(vars, await sign("eve@evil.example@acme.example"))).status).toBe(401);
    const unverified = await sign("a@acme.example", ["f00d"], { email_verified: false });
    expect((await request(vars, unverified)).status).toBe(401);
    // The other issuer still works, and neither can issue tokens for the other.
    expect((await request(vars, await mint({}))).status).toBe(200);
    expect((await request(vars, await mint({ iss: issuer, aud: "f00d" }))).status).toBe(401);
  });

  test("lets nobody in when it is misconfigured, and reports that to the operator only", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const token = await mint({});
    for (const vars of [{ AUTH_ISSUERS: "nonsense" }, { AUTH_JWKS: '{"keys":[]}' }]) {
      for (const response of [await request(vars, token), await request(vars)]) {
        expect(response.status).toBe(503);
        expect(await response.json()).toEqual({
          error: { code: "unavailable", message: "This gateway's authentication is not set up" },
        });
      }
    }
    expect(logged.mock.calls[0]).toEqual([
      "authentication is misconfigured: every caller is refused",
      { reason: "AUTH_ISSUERS is not JSON" },
    ]);
    expect((await app.request("/healthz", {}, { ...env, AUTH_ISSUERS: "nonsense" })).status).toBe(200);
  });

  test("lets nobody in while it does not answer", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const jwksUrl = "http://127.0.0.1:1/keys";
    const AUTH_ISSUERS = JSON.stringify([{ issuer: "away", audience: "a", jwksUrl }]);
    const response = await request({ AUTH_ISSUERS }, await mint({ iss: "away", aud: "a" }));
    expect(response.status).toBe(503);
    expect((await request({ AUTH_ISSUERS }, await mint({}))).status).toBe(200);
  });
});

describe("a workspace pattern in a token", () => {
  test("gives the workspaces it matches, in lists too", async () => {
    const { sessionId, workspace: name } = await openSession();
    const listed = async (pattern: string) => {
      const token = await mint({ workspaces: ["nothing", pattern] });
      const response = await ask(`/api/sessions?limit=200`, { Authorization: `Bearer ${token}` });
      const { sessions } = (await response.json()) as { sessions: { sessionId: string }[] };
      const one = await status(`/api/sessions/${sessionId}`, { Authorization: `Bearer ${token}` });
      const isListed = sessions.some((session) => session.sessionId === sessionId);
      expect(one).toBe(isListed ? 200 : 404);
      const names = await ask("/api/workspaces?limit=200", { Authorization: `Bearer ${token}` });
      const { workspaces } = (await names.json()) as { workspaces: { id: string }[] };
      expect(workspaces.some(({ id }) => id === name)).toBe(isListed);
      return isListed;
    };
    const [start, end] = [name.slice(0, 10), name.slice(-8)];
    await vi.waitFor(async () => expect(await listed(name)).toBe(true), { timeout: 10_000 });
    for (const pattern of ["*", `${start}*`, `*${end}`, `${start}*${end}`, `${name}*`])
      expect([pattern, await listed(pattern)]).toEqual([pattern, true]);
    for (const pattern of ["x*", `${start}*x`, `${name}*${end}`, `${start.replace("-", "?")}*`, `%*`])
      expect([pattern, await listed(pattern)]).toEqual([pattern, false]);
  });
});

describe("the scopes of hosts and clients", () => {
  test("keep a host from reading its sessions and a client from being a host", async () => {
    const { sessionId, workspace: name } = await openSession();
    const host = { Authorization: `Bearer ${await mint({ workspaces: [name], scopes: ["host"] })}` };
    const client = { Authorization: `Bearer ${await mint({ workspaces: [name] })}` };
    expect(await status(`/api/sessions/${sessionId}`, host)).toBe(403);
    expect(await status("/acp", { ...UPGRADE, ...host })).toBe(403);
    expect(await status(`/host/sessions/${sessionId}`, { ...UPGRADE, ...client })).toBe(403);
    expect(await status(`/host/sessions/${sessionId}`, { ...UPGRADE, ...host })).toBe(101);
  });

  test("are checked by the objects too", async () => {
    const { sessionId, workspace: name } = await openSession();
    const caller = { tenant: "acme", subject: "s", workspaces: [name], expires: 0 } as const;
    const session = sessionStub(sessionId);
    expect(await session.view({ ...caller, scopes: ["host"] })).toMatchObject({ ok: false });
    expect(await session.view({ ...caller, scopes: [] })).toMatchObject({ ok: false });
    expect(await session.view({ ...caller, scopes: ["session:read"] })).toMatchObject({ ok: true });
    expect(await session.unqueue({ ...caller, scopes: ["session:read"] }, "t")).toMatchObject({ ok: false });
    expect(await session.close({ ...caller, scopes: ["session:read"] }, "x")).toMatchObject({ ok: false });
    const place = workspaceStub(name);
    await runInDurableObject(place, async (object: WorkspaceState) => {
      const reader = { ...caller, scopes: ["session:read"] } as const;
      await expect(object.update(reader, name, { policy: ASK_ALWAYS })).rejects.toThrow("Not this caller's");
      expect(() => object.view({ ...reader, tenant: "other" }, name)).toThrow("Not this caller's");
      expect(() => object.view({ ...reader, workspaces: ["x"] }, name)).toThrow("Not this caller's");
      expect(object.view(reader, name).id).toBe(name);
    });
  });
});

describe("a token", () => {
  afterEach(() => vi.restoreAllMocks());

  test("appears in no log, no event and no response", async () => {
    const lines: unknown[][] = [];
    for (const level of ["debug", "log", "info", "warn", "error"] as const)
      vi.spyOn(console, level).mockImplementation((...line) => void lines.push(line));
    const name = workspace();
    const token = await mint({ workspaces: [name] });
    const signature = token.split(".")[2] as string;
    const host = await Host.join(name);
    const peer = await Peer.connect(`/acp?token=${token}`, token);
    peer.send('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}');
    await peer.take();
    peer.send('{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}');
    const agent = await host.agent();
    await agent.openSession();
    const { result } = (await peer.takeJson()) as { result: { sessionId: string } };
    const damaged = `${token.slice(0, -4)}AAAA`;
    const answers: string[] = [];
    for (const path of [
      "/api/sessions/x",
      "/api/nothing",
      "/acp",
      "/host/control",
      "/nowhere",
      "/api/sessions?limit=x",
    ])
      for (const one of [token, damaged]) {
        const separator = path.includes("?") ? "&" : "?";
        const response = await ask(`${path}${separator}token=${one}`, { Authorization: `Bearer ${one}` });
        answers.push(await response.text(), JSON.stringify([...response.headers]));
      }
    const log = await events(name, result.sessionId);
    for (const text of [JSON.stringify(lines), JSON.stringify(log), ...answers]) {
      expect(text).not.toContain(signature);
      expect(text).not.toContain(token.split(".")[1]);
    }
  });
});
