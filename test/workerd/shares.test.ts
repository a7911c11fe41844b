import { exports } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { UNTOUCHABLE, withBindings } from "./answer-links/fixtures.ts";
import { type Opened, openSession } from "./fixtures.ts";
import { setLimitsOf } from "./limits.ts";
import { Client } from "./peers/client.ts";
import { JSON_TYPE } from "./peers/http-client.ts";
import { ALL_OF_A_CLIENT, mint } from "./tokens.ts";

async function ask(method: string, path: string, bearer: string, body?: unknown): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: { Authorization: `Bearer ${bearer}`, ...JSON_TYPE },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

type Made = { id: string; url: string; token: string; expiresAt: string };

async function shared(expiresIn = 60): Promise<Opened & { share: Made; owner: string }> {
  const opened = await openSession();
  const owner = await mint({ workspaces: [opened.workspace], scopes: ALL_OF_A_CLIENT, sub: "owner" });
  const made = await ask("POST", "/api/shares", owner, { session: opened.sessionId, expiresIn });
  expect(made.status).toBe(201);
  return { ...opened, owner, share: (await made.json()) as Made };
}

async function connect(token: string): Promise<Client> {
  const headers = { Upgrade: "websocket" };
  const response = await exports.default.fetch(`https://edge.test/acp?token=${token}`, { headers });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  const client = new Client(response.webSocket);
  await client.request("initialize", { protocolVersion: 1 });
  return client;
}

describe("a share link", () => {
  test("[I12] shows its session and no other, and changes nothing", async () => {
    const { workspace, sessionId, share, client, host } = await shared();
    const { token, url } = share;
    expect((await exports.default.fetch(url)).status).toBe(200);
    const opening = client.newSession();
    await (await host.agent()).openSession();
    const other = await opening;
    const status = async (path: string, method = "GET", body?: unknown) =>
      (await ask(method, path, token, body)).status;
    expect(await status(`/api/sessions/${sessionId}/events`)).toBe(200);
    expect(await status(`/api/sessions/${sessionId}/export`)).toBe(200);
    expect(await status(`/api/sessions/${other}`)).toBe(404);
    expect(await status(`/api/sessions/${other}/events`)).toBe(404);
    expect(await status(`/api/workspaces/${workspace}`)).toBe(404);
    expect(await (await ask("GET", "/api/workspaces", token)).json()).toMatchObject({ workspaces: [] });
    expect(await status("/api/shares")).toBe(403);
    expect(await status("/api/audit")).toBe(403);
    await vi.waitFor(async () => {
      const mine = await mint({ workspaces: [workspace] });
      const all = (await (await ask("GET", "/api/sessions", mine)).json()) as { sessions: unknown[] };
      expect(all.sessions).toHaveLength(2);
    }, 10_000);
    const listed = (await (await ask("GET", "/api/sessions", token)).json()) as {
      sessions: { sessionId: string }[];
    };
    expect(listed.sessions.map((one) => one.sessionId)).toEqual([sessionId]);

    const visitor = await connect(token);
    const load = (id: string) => visitor.request("session/load", { sessionId: id, cwd: "/", mcpServers: [] });
    expect((await load(sessionId)).response).toHaveProperty("result");
    expect((await load(other)).response.error).toMatchObject({ code: -32002 });
    const prompt = { sessionId, prompt: [{ type: "text", text: "hi" }] };
    expect((await visitor.request("session/prompt", prompt)).response.error).toMatchObject({ code: -32003 });
  });

  test("is listed, and closes its sockets when it is revoked", async () => {
    const { sessionId, share, owner } = await shared();
    const { id, token, expiresAt } = share;
    const listed = await (await ask("GET", "/api/shares", owner)).text();
    expect(JSON.parse(listed)).toMatchObject({
      shares: [{ id, session: sessionId, by: "owner", expiresAt }],
    });
    expect(listed).not.toContain(token);
    const visitor = await connect(token);
    const elsewhere = await mint({ workspaces: ["elsewhere"], scopes: ALL_OF_A_CLIENT });
    expect((await ask("DELETE", `/api/shares/${id}`, elsewhere)).status).toBe(404);
    expect((await ask("DELETE", `/api/shares/${id}`, owner)).status).toBe(204);
    expect(await visitor.closed).toMatchObject({ code: 4401 });
    expect((await ask("GET", `/api/sessions/${sessionId}`, token)).status).toBe(401);
    const audit = await (await ask("GET", "/api/audit?limit=1000", owner)).text();
    for (const kind of ["share.made", "share.revoked"]) expect(audit).toContain(kind);
    expect(audit).not.toContain(token);
  });

  test("expires, and a forged one is unknown", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { sessionId, share } = await shared(10);
    const status = async (token: string) => (await ask("GET", `/api/sessions/${sessionId}`, token)).status;
    expect(await status(share.token)).toBe(200);
    expect(await status(`${share.token.slice(0, -1)}${share.token.endsWith("A") ? "E" : "A"}`)).toBe(401);
    expect(await status("acps_x")).toBe(401);
    expect(await status(`acps_%%.${"x".repeat(43)}`)).toBe(401);
    vi.setSystemTime(Date.now() + 10_000);
    expect(await status(share.token)).toBe(401);
    vi.useRealTimers();
  });

  test("that this gateway has not signed, or that has expired, reaches no object", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { sessionId, share } = await shared(10);
    const [tenant, expiry, secret, signature] = share.token.split(".");
    const status = async (token: string) => {
      const url = `https://edge.test/api/sessions/${sessionId}?token=${token}`;
      return (await withBindings(UNTOUCHABLE, url)).status;
    };
    for (const token of [
      [`acps_${btoa("other").replaceAll("=", "")}`, expiry, secret, signature].join("."),
      [tenant, "zzzzzzzzz", secret, signature].join("."),
      [tenant, expiry, "A".repeat(43), signature].join("."),
      [tenant, expiry, secret, "A".repeat(43)].join("."),
      // The form of earlier builds, which signed nothing.
      [tenant, secret].join("."),
    ])
      expect([token, await status(token)]).toEqual([token, 401]);
    // A signed token does reach its tenant, so the traps above would have sprung.
    expect(await status(share.token)).toBe(500);
    vi.setSystemTime(Date.now() + 10_000);
    expect(await status(share.token)).toBe(401);
    vi.useRealTimers();
  });

  test("cannot be made on a gateway without SECRETS_KEY", async () => {
    const { sessionId, owner } = await shared();
    const headers = { Authorization: `Bearer ${owner}`, ...JSON_TYPE };
    const init = { method: "POST", headers, body: JSON.stringify({ session: sessionId }) };
    expect((await withBindings({ SECRETS_KEY: "" }, "https://edge.test/api/shares", init)).status).toBe(501);
  });

  test("is one of a limited number, and expired ones make room", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { sessionId } = await shared(10);
    await setLimitsOf("acme", { sharesPerSession: 2, sharesPerSubject: 3, sharesPerTenant: 1000 });
    const add = async (session: string, sub: string, expiresIn = 60) => {
      const bearer = await mint({ workspaces: ["*"], scopes: ALL_OF_A_CLIENT, sub });
      return (await ask("POST", "/api/shares", bearer, { session, expiresIn })).status;
    };
    const sub = crypto.randomUUID();
    expect(await add(sessionId, sub)).toBe(201);
    expect(await add(sessionId, sub)).toBe(409);
    const others = [await openSession(), await openSession()];
    for (const other of others) expect(await add(other.sessionId, sub)).toBe(201);
    // The maker has three, whatever their sessions.
    expect(await add(others[0]?.sessionId as string, sub)).toBe(409);
    expect(await add(others[0]?.sessionId as string, `${sub}-2`)).toBe(201);
    vi.setSystemTime(Date.now() + 11_000);
    expect(await add(sessionId, `${sub}-2`)).toBe(201);
    await setLimitsOf("acme", { sharesPerTenant: 1 });
    const { sessionId: last } = await openSession();
    expect(await add(last, `${sub}-3`)).toBe(409);
    vi.useRealTimers();
  });
});
