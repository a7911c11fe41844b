import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { base64url, decodeJwt, decodeProtectedHeader, SignJWT } from "jose";
import { describe, expect, it, vi } from "vitest";
import { type AnswerLink, answerUrl, makeAnswerLink, readAnswerLink } from "../../src/auth/answer-link.ts";
import { app } from "../../src/http/app.ts";
import { LIMITS } from "../../src/protocol/limits.ts";
import { events, eventsText, get, type Opened, openSession, send } from "./harness.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "./tokens.ts";

/** Links in notifications: each gives one answer to one permission request, once, for whoever has it. */

type Json = Record<string, unknown>;
type Linked = { optionId: string; name: string | null; kind: string | null; url: string };
type Made = { id: string; permission: string; expiresAt: string; links: Linked[] };

const OPTIONS = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "always", name: "Sure", kind: "allow_always" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];
const JSON_PLEASE = { Accept: "application/json" };
const selected = (optionId: string) => ({ outcome: { outcome: "selected", optionId } });

/** A session whose agent waits for an answer. */
type Asking = Opened & { permission: string; owner: string };

async function asking(toolCall: Json = {}, options: Json[] = OPTIONS): Promise<Asking> {
  const opened = await openSession();
  const params = {
    sessionId: "agent-session",
    toolCall: { toolCallId: "t1", title: "Write a file", kind: "edit", ...toolCall },
    options,
  };
  opened.agent.items(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params }));
  const { id } = await opened.client.takeJson();
  const owner = await mint({ workspaces: [opened.workspace], scopes: ALL_OF_A_CLIENT, sub: "owner" });
  return { ...opened, permission: id as string, owner };
}

async function linked(place: Asking, order: Json = {}, claims: Claims = {}): Promise<Made> {
  const maker = { workspaces: [place.workspace], scopes: ALL_OF_A_CLIENT, sub: "owner", ...claims };
  const path = `/api/permissions/${place.permission}/links`;
  const response = await send("POST", path, await mint(maker), order);
  expect(response.status).toBe(201);
  return (await response.json()) as Made;
}

/** Where the option with this id is chosen. */
function urlOf({ links }: Made, optionId: string): string {
  return links.find((link) => link.optionId === optionId)?.url as string;
}

const tokenIn = (url: string) => new URL(url).searchParams.get("link") as string;

async function follow(url: string, method = "GET", headers: HeadersInit = {}): Promise<Response> {
  return exports.default.fetch(url, { method, headers });
}

async function statusOf(url: string, method = "GET"): Promise<number> {
  const response = await follow(url, method);
  await response.body?.cancel();
  return response.status;
}

async function isPending({ owner, sessionId }: Asking): Promise<boolean> {
  const view = await (await get(`/api/sessions/${sessionId}`, owner)).json<{ pendingPermissions: Json[] }>();
  return view.pendingPermissions.length === 1;
}

/** A link as only we can make it, that says something else. */
async function madeUp(made: Made, other: Partial<AnswerLink>): Promise<string> {
  const link = await readAnswerLink(env, tokenIn(urlOf(made, "yes")));
  if ("refused" in link) throw new Error(link.refused);
  return answerUrl("https://edge.test", (await makeAnswerLink(env, { ...link, ...other })) as string);
}

/** A request to the Worker with other bindings than it has. */
async function withBindings(bindings: Partial<Env>, url: string, init: RequestInit = {}): Promise<Response> {
  return app.fetch(new Request(url, init), { ...env, ...bindings }, createExecutionContext());
}

describe("links for a permission request", () => {
  it("are made for each option, by whoever may share and answer", async () => {
    const place = await asking();
    const { permission, workspace } = place;
    const before = Date.now();
    const made = await linked(place, { expiresIn: 60 });
    expect(made).toMatchObject({ permission, links: OPTIONS });
    expect(Date.parse(made.expiresAt)).toBeLessThanOrEqual(Date.now() + 60_000);
    expect(Date.parse(made.expiresAt)).toBeGreaterThan(before + 58_000);
    for (const { url } of made.links) expect(new URL(url).pathname).toBe("/answer");
    const path = `/api/permissions/${permission}/links`;
    for (const lacking of ["share", "permission:answer"]) {
      const scopes = ALL_OF_A_CLIENT.filter((scope) => scope !== lacking);
      expect((await send("POST", path, await mint({ workspaces: [workspace], scopes }), {})).status).toBe(
        403,
      );
    }
  });

  it("are good for a day unless said otherwise, and for a week at most", async () => {
    const place = await asking();
    const path = `/api/permissions/${place.permission}/links`;
    const seconds = ({ expiresAt }: Made) => Math.round((Date.parse(expiresAt) - Date.now()) / 1000);
    const day = LIMITS.answerLinkSeconds;
    expect(Math.abs(seconds(await linked(place)) - day)).toBeLessThanOrEqual(60);
    const silent = await get(path, place.owner, "POST");
    expect(silent.status).toBe(201);
    expect(Math.abs(seconds(await silent.json()) - day)).toBeLessThanOrEqual(60);
    for (const order of [{ expiresIn: LIMITS.answerLinkMaxSeconds + 1 }, { expiresIn: 0 }, { for: 1 }, null])
      expect((await send("POST", path, place.owner, order)).status).toBe(400);
  });

  it("cannot be made for what is settled, unknown or somebody else's", async () => {
    const place = await asking();
    const { permission, sessionId, workspace, client, agent, owner } = place;
    const status = async (id: string, claims: Claims = {}) => {
      const bearer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, ...claims });
      return (await send("POST", `/api/permissions/${id}/links`, bearer, {})).status;
    };
    expect(await status(permission, { tenant: "other" })).toBe(404);
    expect(await status(permission, { workspaces: ["elsewhere"] })).toBe(404);
    expect(await status(`${sessionId}:1`)).toBe(404);
    expect(await status("nonsense")).toBe(404);
    client.send(JSON.stringify({ jsonrpc: "2.0", id: permission, result: selected("yes") }));
    await agent.line();
    expect((await send("POST", `/api/permissions/${permission}/links`, owner, {})).status).toBe(404);
  });

  it("cannot be made or followed at a gateway without SECRETS_KEY", async () => {
    const place = await asking();
    const made = await linked(place);
    const order = { method: "POST", headers: { Authorization: `Bearer ${place.owner}` } };
    const without = { SECRETS_KEY: "" };
    const path = `https://edge.test/api/permissions/${place.permission}/links`;
    const refused = await withBindings(without, path, order);
    expect(refused.status).toBe(501);
    expect(await refused.json()).toMatchObject({ error: { code: "not_configured" } });
    expect((await withBindings(without, urlOf(made, "yes"))).status).toBe(404);
  });

  it("leave out options whose ids no URL has room for, and what is beyond any list", async () => {
    const long = { optionId: "x".repeat(LIMITS.idChars + 1), name: "Long", kind: "allow_once" };
    const many = Array.from({ length: 100 }, (_, n) => ({
      optionId: `o${n}`,
      name: "?",
      kind: "allow_once",
    }));
    const { links } = await linked(await asking({}, [long, ...many]));
    expect(links.map(({ optionId }) => optionId)).toEqual(
      many.slice(0, LIMITS.answerLinks).map(({ optionId }) => optionId),
    );
  });
});

describe("the page of a link", () => {
  it("shows what is asked, and nothing an agent writes is more than text", async () => {
    const evil = `<script>alert(1)</script>"'&`;
    const place = await asking({ title: evil, kind: "execute<b>" }, [
      { optionId: "yes", name: `<img src=x onerror=alert(1)>`, kind: "allow_once" },
    ]);
    const response = await follow(urlOf(await linked(place), "yes"));
    const page = await response.text();
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toMatch(/^text\/html/);
    expect(page).toContain("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;");
    expect(page).toContain("execute&lt;b&gt;");
    expect(page).toContain("&lt;img src=x onerror=alert(1)&gt;");
    expect(page).toContain(place.workspace);
    expect(page).toContain(place.sessionId);
    expect(page).not.toMatch(/<script|<img|onerror="/);
    expect(page.match(/<button/g)).toHaveLength(1);
  });

  it("is kept nowhere, framed nowhere, runs nothing and tells nobody where it came from", async () => {
    const url = urlOf(await linked(await asking()), "yes");
    for (const response of [await follow(url), await follow(`${url}x`), await follow(url, "POST")]) {
      const page = await response.text();
      const policy = response.headers.get("Content-Security-Policy") ?? "";
      const [, nonce] = /style-src 'nonce-([\w-]+)'/.exec(policy) ?? [];
      expect(page).toContain(`<style nonce="${nonce}">`);
      expect(policy).toContain("default-src 'none'");
      for (const rule of ["form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"])
        expect(policy).toContain(rule);
      expect(policy).not.toContain("script-src");
      expect(Object.fromEntries(response.headers)).toMatchObject({
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-frame-options": "DENY",
        "x-robots-tag": expect.stringContaining("noindex"),
      });
      // Its only link is its own address, which is in no page.
      expect(page).not.toContain(tokenIn(url));
    }
    const [one, other] = [await follow(url), await follow(url)].map((response) =>
      response.headers.get("Content-Security-Policy"),
    );
    expect(one).not.toBe(other);
  });

  it("tells what an option does, whatever the agent calls it", async () => {
    const options = ["allow_once", "allow_always", "reject_once", "reject_always", "something_new"];
    const made = await linked(
      await asking(
        {},
        options.map((kind) => ({ optionId: kind, name: "Go", kind })),
      ),
    );
    const button = async (kind: string) => {
      const page = await (await follow(urlOf(made, kind))).text();
      const [, tone] = /<button class="([\w ]+)">Go<\/button>/.exec(page) ?? [];
      return { tone, means: /<p class="means [\w ]+">(.*)<\/p>/.exec(page)?.[1] };
    };
    expect(await Promise.all(options.map(button))).toEqual([
      { tone: "allow", means: "Allows this once." },
      { tone: "allow always", means: "Allows this always, not only once." },
      { tone: "deny", means: "Denies this once." },
      { tone: "deny always", means: "Denies this always, not only once." },
      { tone: "other", means: undefined },
    ]);
  });

  it("shows all of a long title, so that nobody agrees to the beginning of a command", async () => {
    const title = `echo ${"harmless ".repeat(100)}; rm -rf /`;
    const page = await (await follow(urlOf(await linked(await asking({ title })), "yes"))).text();
    expect(page).toContain(title);
  });

  it("says what the call was announced as when the request does not", async () => {
    const opened = await openSession();
    const call = { sessionUpdate: "tool_call", toolCallId: "t1", title: "Move the piano", kind: "move" };
    const update = { sessionId: "agent-session", update: call };
    opened.agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params: update }));
    const named = { sessionUpdate: "session_info_update", title: "Housework" };
    opened.agent.items(
      JSON.stringify({
        jsonrpc: "2.0",
        method: "session/update",
        params: { sessionId: "agent-session", update: named },
      }),
    );
    const params = { sessionId: "agent-session", toolCall: { toolCallId: "t1" }, options: OPTIONS };
    opened.agent.items(
      JSON.stringify({ jsonrpc: "2.0", id: 7, method: "session/request_permission", params }),
    );
    await opened.client.takeJson();
    await opened.client.takeJson();
    const permission = (await opened.client.takeJson()).id as string;
    const made = await linked({ ...opened, permission, owner: "" });
    expect(await (await follow(urlOf(made, "no"), "GET", JSON_PLEASE)).json()).toEqual({
      id: permission,
      workspace: opened.workspace,
      session: { id: opened.sessionId, title: "Housework" },
      title: "Move the piano",
      kind: "move",
      option: OPTIONS[2],
    });
  });

  it("answers nothing however often it is looked at", async () => {
    const place = await asking();
    const url = urlOf(await linked(place), "yes");
    const before = await eventsText(place.workspace, place.sessionId);
    for (const method of ["GET", "HEAD", "GET", "OPTIONS", "PUT", "DELETE", "PATCH"])
      await statusOf(url, method);
    expect(await statusOf(url, "HEAD")).toBe(200);
    expect(await eventsText(place.workspace, place.sessionId)).toBe(before);
    expect(await isPending(place)).toBe(true);
  });
});

describe("following a link", () => {
  it("gives the agent exactly that answer, once, and the log says who and how", async () => {
    const place = await asking();
    const { agent, client, permission, workspace, sessionId } = place;
    const made = await linked(place);
    const response = await follow(urlOf(made, "always"), "POST");
    expect(response.status).toBe(200);
    const page = await response.text();
    expect(page).toContain("Allowed always");
    expect(page).toContain("Sure");
    expect(page).not.toContain("<button");
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 7, result: selected("always") });
    // Who has it open in an editor is told.
    expect(await client.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: permission },
    });
    for (const option of ["always", "yes", "no"]) {
      expect(await statusOf(urlOf(made, option), "POST")).toBe(410);
      expect(await statusOf(urlOf(made, option))).toBe(410);
    }
    const decisions = (await events(workspace, sessionId)).filter(
      ({ kind }) => kind === "permission.responded",
    );
    expect(decisions.map(({ payload }) => payload)).toMatchObject([
      { ...selected("always"), by: "link", subject: "owner", why: "answered" },
    ]);
  });

  it("answers programs in JSON", async () => {
    const place = await asking();
    const { permission: id } = place;
    const made = await linked(place);
    const ask = async (url: string, method = "POST") => {
      const response = await follow(url, method, JSON_PLEASE);
      expect(response.headers.get("Cache-Control")).toBe("no-store");
      return [response.status, await response.json()];
    };
    const gone = { error: { code: "gone", message: expect.any(String) } };
    const unknown = { error: { code: "not_found", message: expect.any(String) } };
    expect(await ask(`${urlOf(made, "yes")}x`)).toEqual([404, unknown]);
    expect(await ask(urlOf(made, "yes"))).toEqual([200, { id, ...selected("yes") }]);
    expect(await ask(urlOf(made, "yes"))).toEqual([410, gone]);
    expect(await ask(urlOf(made, "no"), "GET")).toEqual([410, gone]);
  });

  it("is decided for one when many do so at the same time", async () => {
    const place = await asking();
    const made = await linked(place);
    const choices = ["yes", "no", "yes", "always", "no", "yes"];
    const statuses = await Promise.all(choices.map((option) => statusOf(urlOf(made, option), "POST")));
    expect(statuses.toSorted()).toEqual([200, 410, 410, 410, 410, 410]);
    const winner = choices[statuses.indexOf(200)] as string;
    expect(await place.agent.line()).toEqual({ jsonrpc: "2.0", id: 7, result: selected(winner) });
    const log = await events(place.workspace, place.sessionId);
    expect(log.filter(({ kind }) => kind === "permission.responded")).toHaveLength(1);
  });

  it("comes too late when the request was settled in another way", async () => {
    const gone = async (settle: (place: Asking) => Promise<unknown>) => {
      const place = await asking();
      const url = urlOf(await linked(place), "yes");
      await settle(place);
      return [await statusOf(url), await statusOf(url, "POST")];
    };
    const answered = ({ client, agent, permission }: Asking) => {
      client.send(JSON.stringify({ jsonrpc: "2.0", id: permission, result: selected("no") }));
      return agent.line();
    };
    const withdrawn = ({ agent }: Asking) => {
      agent.items('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}');
      return agent.durable();
    };
    const died = ({ agent }: Asking) => {
      agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
      return agent.durable();
    };
    const deleted = ({ client, sessionId }: Asking) => client.request("session/delete", { sessionId });
    for (const settle of [answered, withdrawn, died, deleted])
      expect(await gone(settle), settle.name).toEqual([410, 410]);
  });

  it("comes too late when the link has expired, which takes no object to say", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const place = await asking();
    const url = urlOf(await linked(place, { expiresIn: 10 }), "yes");
    vi.setSystemTime(Date.now() + 9_000);
    expect(await statusOf(url)).toBe(200);
    vi.setSystemTime(Date.now() + 2_000);
    expect(await statusOf(url)).toBe(410);
    expect(await statusOf(url, "POST")).toBe(410);
    expect((await withBindings(UNTOUCHABLE, url, { method: "POST" })).status).toBe(410);
    expect(await isPending(place)).toBe(true);
    vi.useRealTimers();
  });
});

const trap = () =>
  new Proxy({} as never, {
    get() {
      throw new Error("an object was asked");
    },
  });
const UNTOUCHABLE = { ACP_SESSION_DO: trap(), TENANT_DO: trap(), WORKSPACE_STATE_DO: trap(), INDEX: trap() };

describe("what is no good link", () => {
  it("leads nowhere, and reaches no object", async () => {
    const place = await asking();
    const url = urlOf(await linked(place), "yes");
    const token = tokenIn(url);
    const [header, payload, signature] = token.split(".") as [string, string, string];
    const unsigned = base64url.encode(JSON.stringify({ ...decodeProtectedHeader(token), alg: "none" }));
    const otherwise = base64url.encode(JSON.stringify({ ...decodeJwt(token), optionId: "no" }));
    // Made under SECRETS_KEY itself, not under the key that is for links.
    const secret = base64url.decode(env.SECRETS_KEY as string);
    const raw = await new SignJWT(decodeJwt(token))
      .setProtectedHeader({ ...decodeProtectedHeader(token), alg: "HS256" })
      .sign(secret);
    const bad = [
      ...["", "x", "a.b.c", "%00", `${token}.${signature}`, `${header}.${payload}`, `${header}.${payload}.`],
      ...[
        `${unsigned}.${payload}.`,
        `${unsigned}.${payload}.${signature}`,
        `${header}.${otherwise}.${signature}`,
      ],
      ...[raw, place.owner],
    ];
    for (const text of bad) {
      const response = await withBindings(UNTOUCHABLE, answerUrl("https://edge.test", text), {
        method: "POST",
      });
      expect(response.status, text).toBe(404);
    }
    expect((await withBindings(UNTOUCHABLE, "https://edge.test/answer")).status).toBe(404);
    // With a good one an object would have been asked.
    expect((await withBindings(UNTOUCHABLE, url)).status).toBe(500);
    expect(await isPending(place)).toBe(true);
  });

  it("is slowed down like every other request, and no way in for foreign pages' sockets", async () => {
    const url = answerUrl("https://edge.test", "x");
    const keys: string[] = [];
    const limit = async ({ key }: { key: string }) => {
      keys.push(key);
      return { success: false };
    };
    const headers = { "CF-Connecting-IP": "192.0.2.7" };
    const limited = await withBindings({ ...UNTOUCHABLE, RATE_LIMITER: { limit } }, url, { headers });
    expect(limited.status).toBe(429);
    expect(keys).toEqual(["address:192.0.2.7"]);
    const socket = { Upgrade: "websocket", Origin: "https://elsewhere.example" };
    expect((await withBindings(UNTOUCHABLE, url, { headers: socket })).status).toBe(403);
    const long = answerUrl("https://edge.test", "x".repeat(LIMITS.urlChars));
    expect((await withBindings(UNTOUCHABLE, long)).status).toBe(414);
  });

  it("is one with a single bit changed, wherever that is", async () => {
    const token = tokenIn(urlOf(await linked(await asking()), "yes"));
    expect(await readAnswerLink(env, token)).not.toHaveProperty("refused");
    const parts = token.split(".").map((part) => base64url.decode(part));
    for (const [at, part] of parts.entries()) {
      for (const index of part.keys()) {
        const changed = parts.map((bytes) => new Uint8Array(bytes));
        (changed[at] as Uint8Array)[index]! ^= 1 << (index % 8);
        const text = changed.map((bytes) => base64url.encode(bytes)).join(".");
        expect(await readAnswerLink(env, text), `part ${at}, byte ${index}`).toHaveProperty("refused");
      }
    }
  });

  it("is a token in place of a link, and a link in place of a token", async () => {
    const place = await asking();
    const link = tokenIn(urlOf(await linked(place), "yes"));
    expect(await statusOf(answerUrl("https://edge.test", place.owner), "POST")).toBe(404);
    for (const path of [
      "/api/sessions",
      `/api/sessions/${place.sessionId}`,
      "/api/audit",
      "/acp",
      "/agent/ws",
    ]) {
      expect((await get(path, link)).status, path).toBe(401);
      expect((await get(`${path}?token=${link}`)).status, path).toBe(401);
    }
    const answer = { optionId: "yes" };
    expect((await send("POST", `/api/permissions/${place.permission}`, link, answer)).status).toBe(401);
    expect((await send("POST", `/api/permissions/${place.permission}/links`, link, {})).status).toBe(401);
    expect((await send("POST", "/api/login", link, { token: link })).status).toBe(401);
    expect(await isPending(place)).toBe(true);
  });

  it("is one for another tenant, workspace, session, request or option, even signed by us", async () => {
    const place = await asking();
    const made = await linked(place);
    const status = async (other: Partial<AnswerLink>) => statusOf(await madeUp(made, other), "POST");
    expect(await status({ tenant: "other" })).toBe(410);
    expect(await status({ workspace: "elsewhere" })).toBe(410);
    expect(await status({ session: (await asking()).sessionId })).toBe(410);
    expect(await status({ seq: 1 })).toBe(410);
    expect(await status({ optionId: "maybe" })).toBe(404);
    expect(await status({ webhook: "unknown" })).toBe(404);
    expect(await isPending(place)).toBe(true);
    expect(await status({})).toBe(200);
  });

  it("is one that was revoked, by its id or with its maker; lifting that gives it back", async () => {
    const place = await asking();
    const sub = crypto.randomUUID();
    const made = await linked(place, {}, { sub });
    const other = await linked(place);
    for (const order of [{ jti: made.id }, { subject: sub }]) {
      const revocation = await send("POST", "/api/revocations", place.owner, order);
      expect(revocation.status).toBe(201);
      for (const option of ["yes", "no"]) {
        expect(await statusOf(urlOf(made, option))).toBe(404);
        expect(await statusOf(urlOf(made, option), "POST")).toBe(404);
      }
      expect(await statusOf(urlOf(other, "yes"))).toBe(200);
      const { id } = await revocation.json<{ id: string }>();
      expect((await get(`/api/revocations/${id}`, place.owner, "DELETE")).status).toBe(204);
    }
    expect(await isPending(place)).toBe(true);
    expect(await statusOf(urlOf(made, "yes"), "POST")).toBe(200);
  });

  it("is one whose session was revoked: nobody but administrators know of that", async () => {
    const place = await asking();
    const url = urlOf(await linked(place), "yes");
    const order = { session: place.sessionId };
    expect((await send("POST", "/api/revocations", place.owner, order)).status).toBe(201);
    expect(await statusOf(url)).toBe(410);
    expect(await statusOf(url, "POST")).toBe(410);
    expect(await isPending(place)).toBe(true);
  });
});

describe("the audit and the logs", () => {
  it("say who made links and who answered by one, and never have a link", async () => {
    const consoles = (["log", "info", "warn", "error"] as const).map((name) => vi.spyOn(console, name));
    const place = await asking();
    const { workspace, sessionId, owner } = place;
    const made = await linked(place, {}, { sub: "maker" });
    await statusOf(urlOf(made, "no"));
    // A failure is logged, too.
    expect((await withBindings(UNTOUCHABLE, urlOf(made, "no"))).status).toBe(500);
    expect(await statusOf(urlOf(made, "no"), "POST")).toBe(200);
    const read = async () => {
      const page = await (await get("/api/audit?limit=1000", owner)).json<{ entries: Json[] }>();
      return page.entries.filter(({ session }) => session === sessionId);
    };
    await vi.waitFor(async () => expect(await read()).toHaveLength(2));
    const request = Number(place.permission.split(":")[1]);
    expect(await read()).toMatchObject([
      {
        kind: "link.made",
        subject: "maker",
        workspace,
        detail: { id: made.id, request, expiresAt: made.expiresAt },
      },
      {
        kind: "permission.answered",
        subject: "maker",
        workspace,
        detail: { request, outcome: JSON.stringify(selected("no").outcome) },
      },
    ]);
    const printed = consoles.flatMap((one) => one.mock.calls).map((line) => JSON.stringify(line));
    expect(printed.join("\n")).toContain("request failed");
    const texts = [
      JSON.stringify(await read()),
      await eventsText(workspace, sessionId),
      await (await get(`/api/sessions/${sessionId}`, owner)).text(),
      printed.join("\n"),
    ];
    for (const { url } of made.links) {
      const [, payload, signature] = tokenIn(url).split(".") as [string, string, string];
      for (const text of texts) {
        expect(text).not.toContain(signature);
        expect(text).not.toContain(payload);
      }
    }
  });

  it("note that a revoked link was followed", async () => {
    const place = await asking();
    const sub = crypto.randomUUID();
    const made = await linked(place, {}, { sub });
    await send("POST", "/api/revocations", place.owner, { jti: made.id });
    await statusOf(urlOf(made, "yes"), "POST");
    await vi.waitFor(async () => {
      const page = await get("/api/audit?limit=1000&kind=token.refused", place.owner);
      const { entries } = await page.json<{ entries: Json[] }>();
      expect(entries.find(({ subject }) => subject === sub)).toMatchObject({
        detail: { reason: "revoked link" },
      });
    });
  });
});
