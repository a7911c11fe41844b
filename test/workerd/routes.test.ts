import { createExecutionContext, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { app } from "../../src/http/app.ts";
import { clientRequestId } from "../../src/protocol/ids.ts";
import { RESUMABLE } from "../../src/protocol/resumable-wire.ts";
import { Client, Host, type Opened, openSession, permissionRequest, sessionStub, token } from "./harness.ts";
import { ALL_OF_A_CLIENT, type Claims, CONTROLLER, mint, mintHmac, mintUnsigned } from "./tokens.ts";

/**
 * Every route × every kind of caller. A route of the app that has no line in ROUTES fails the first test; a line says
 * what it takes to ask, and only where it differs from its group what each caller gets.
 */

const JSON_TYPE = { "Content-Type": "application/json" };

/**
 * A session in which a turn runs, a prompt waits and a permission is open, in a workspace with a webhook; `answer` is a
 * link that answers the permission.
 */
type Place = Opened & {
  turnId: string;
  permission: string;
  answer: string;
  connection: string;
  resumable: string;
  webhook: string;
};
type Ask = { path: string; method?: string; headers?: Record<string, string>; body?: string };
type Expected = Record<Kind, number>;
type Probe = {
  group: Expected;
  ask: (place: Place, bearer: string | undefined) => Ask;
  differs: Partial<Expected>;
  /** Whoever is let in uses up something: it gets a place of its own. */
  spends?: true;
};

// ---- callers --------------------------------------------------------------------------------------------

/** `base` is what the route is for: the claims of a host, or of a client with every right. */
const CALLERS = {
  none: () => undefined,
  garbage: () => "garbage",
  expired: (base) => mint({ ...base, exp: -60 }),
  "not yet valid": (base) => mint({ ...base, nbf: 60 }),
  "without an end": (base) => mint({ ...base, exp: null }),
  "wrong audience": (base) => mint({ ...base, aud: "somebody-else" }),
  "wrong issuer": (base) => mint({ ...base, iss: "somebody-else" }),
  "wrong algorithm": (base) => mintHmac(base),
  "no algorithm": (base) => mintUnsigned(base),
  "host and client": (base) => mint({ ...base, scopes: [...ALL_OF_A_CLIENT, "host"] }),
  "no scopes": (base) => mint({ ...base, scopes: [] }),
  "other tenant": (base) => mint({ ...base, tenant: "other" }),
  "other workspace": (base) => mint({ ...base, workspaces: ["elsewhere"] }),
  "revoked token": async (base) => {
    const jti = crypto.randomUUID();
    await revoke({ jti });
    return mint({ ...base, jti });
  },
  "revoked subject": async (base) => {
    const sub = crypto.randomUUID();
    await revoke({ subject: sub });
    return mint({ ...base, sub });
  },
  host: ({ workspaces }) => mint({ workspaces: workspaces ?? [], scopes: ["host"] }),
  observer: ({ workspaces }) => mint({ workspaces: workspaces ?? [], scopes: ["session:read"] }),
  controller: ({ workspaces }) => mint({ workspaces: workspaces ?? [], scopes: CONTROLLER }),
  link: (_base, place) => linkTo(place),
  right: (base) => mint(base),
} satisfies Record<string, (base: Claims, place: Place) => Promise<string> | string | undefined>;

/** The token in a link to the place's session. */
async function linkTo({ workspace, sessionId }: Place): Promise<string> {
  const bearer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT });
  const body = JSON.stringify({ session: sessionId });
  const made = await fetchAs({ path: "/api/shares", method: "POST", headers: JSON_TYPE, body }, bearer);
  return ((await made.json()) as { token: string }).token;
}

async function revoke(what: object): Promise<void> {
  const bearer = await mint({ scopes: ALL_OF_A_CLIENT, sub: "admin" });
  const order = { method: "POST", headers: JSON_TYPE, body: JSON.stringify(what) };
  expect((await fetchAs({ path: "/api/revocations", ...order }, bearer)).status).toBe(201);
}

type Kind = keyof typeof CALLERS;
const KINDS = Object.keys(CALLERS) as Kind[];

// ---- groups ---------------------------------------------------------------------------------------------

const everyone = (status: number) => Object.fromEntries(KINDS.map((kind) => [kind, status])) as Expected;

const NOT_LET_IN: Expected = {
  ...everyone(401),
  "no scopes": 403,
  host: 403,
  observer: 403,
  controller: 403,
  link: 403,
};

/** About something that has an id: those who may not know of it hear the same as if it were not there. */
const reader = (ok = 200): Expected => ({
  ...NOT_LET_IN,
  "other tenant": 404,
  "other workspace": 404,
  observer: ok,
  controller: ok,
  link: ok,
  right: ok,
});
/** The same where it is nothing of the session itself: who came by a link knows of that alone. */
const beside = (ok = 200): Expected => ({ ...reader(ok), link: 404 });
const controller = (ok = 200): Expected => ({ ...reader(ok), observer: 403, link: 403 });
const privileged = (ok = 200): Expected => ({ ...controller(ok), controller: 403 });
/** About whatever is the caller's own: others have their own. */
const list = (ok = 200): Expected => ({ ...reader(ok), "other tenant": ok, "other workspace": ok });
/** About all of the tenant. */
const admin = (ok = 200): Expected => ({ ...list(ok), observer: 403, controller: 403, link: 403 });
const hostOnly = (ok = 101): Expected => ({
  ...NOT_LET_IN,
  "other tenant": ok,
  "other workspace": 404,
  host: ok,
  right: ok,
});

function probe(group: Expected, ask: string | Probe["ask"], differs: Partial<Expected> = {}): Probe {
  return { group, ask: typeof ask === "string" ? () => ({ path: ask }) : ask, differs };
}

const spending = (one: Probe): Probe => ({ ...one, spends: true });

// ---- the table ------------------------------------------------------------------------------------------

const UPGRADE = { Upgrade: "websocket" };
const RESUME = { ...UPGRADE, "Sec-WebSocket-Protocol": RESUMABLE };
const INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}';
const session = (rest: string, more: Omit<Ask, "path"> = {}) => {
  return ({ sessionId }: Place): Ask => ({ path: `/api/sessions/${sessionId}${rest}`, ...more });
};

const ROUTES: Record<string, Probe | Probe[]> = {
  "GET /healthz": probe(everyone(200), "/healthz"),
  "GET /": probe(everyone(200), "/"),
  "ALL /acp": [
    probe(reader(101), ({ workspace }) => ({ path: `/acp?workspace=${workspace}`, headers: UPGRADE }), {
      // A workspace of the same name, but its own.
      "other tenant": 101,
    }),
    probe(reader(101), ({ workspace }) => ({ path: `/acp?workspace=${workspace}`, headers: RESUME }), {
      "other tenant": 101,
    }),
    probe(beside(101), ({ resumable }) => ({
      path: "/acp",
      headers: { ...RESUME, "Acp-Connection-Id": resumable },
    })),
    probe(
      reader(),
      ({ workspace }) => ({
        path: `/acp?workspace=${workspace}`,
        method: "POST",
        headers: JSON_TYPE,
        body: INITIALIZE,
      }),
      { "other tenant": 200 },
    ),
    probe(beside(202), ({ connection }) => ({
      path: "/acp",
      method: "POST",
      headers: { ...JSON_TYPE, "Acp-Connection-Id": connection },
      body: '{"jsonrpc":"2.0","id":2,"method":"session/list","params":{}}',
    })),
    probe(beside(), ({ connection }) => ({
      path: "/acp",
      headers: { Accept: "text/event-stream", "Acp-Connection-Id": connection, "Last-Event-ID": "0" },
    })),
    spending(
      probe(
        beside(202),
        ({ connection }) => ({
          path: "/acp",
          method: "DELETE",
          headers: { "Acp-Connection-Id": connection },
        }),
        // The first one that may has ended it.
        { controller: 404, right: 404 },
      ),
    ),
    probe({ ...list(405) }, () => ({ path: "/acp", method: "PUT" })),
  ],
  "GET /agent/ws": [
    probe(reader(101), ({ workspace }) => ({ path: `/agent/ws?workspace=${workspace}`, headers: UPGRADE }), {
      "other tenant": 101,
    }),
    probe(list(426), "/agent/ws"),
  ],
  "GET /host/control": [
    probe(hostOnly(), ({ workspace }) => ({
      path: `/host/control?workspace=${workspace}`,
      headers: UPGRADE,
    })),
    probe({ ...hostOnly(426), "other workspace": 426 }, "/host/control"),
  ],
  "GET /host/sessions/:id": probe(
    hostOnly(),
    ({ sessionId }) => ({ path: `/host/sessions/${sessionId}`, headers: UPGRADE }),
    { "other tenant": 404 },
  ),
  // For whoever has the link, and for nobody else: no token makes a difference.
  "GET /answer": [
    probe(everyone(200), ({ answer }) => ({ path: answer })),
    probe(everyone(404), (_place, bearer) => ({
      path: `/answer?link=${bearer}`,
      headers: { Accept: "application/json" },
    })),
  ],
  "POST /answer": spending(
    // The first one has answered.
    probe(everyone(410), ({ answer }) => ({ path: answer, method: "POST" }), { none: 200 }),
  ),
  "POST /api/login": probe(
    everyone(401),
    (_place, bearer) => ({
      path: "/api/login",
      method: "POST",
      headers: JSON_TYPE,
      body: JSON.stringify({ token: bearer }),
    }),
    {
      ...{ none: 400, host: 403, "no scopes": 200, "other tenant": 200, "other workspace": 200 },
      ...{ observer: 200, controller: 200, link: 200, right: 200 },
    },
  ),
  "POST /api/logout": probe(everyone(204), () => ({ path: "/api/logout", method: "POST" })),
  "GET /api/sessions": probe(list(), "/api/sessions"),
  "GET /api/sessions/:id": probe(reader(), session("")),
  "GET /api/sessions/:id/events": [
    probe(reader(), session("/events")),
    probe(reader(), session("/events", { headers: { Accept: "text/event-stream" } })),
  ],
  "GET /api/sessions/:id/export": probe(reader(), session("/export")),
  "POST /api/sessions/import": probe({ ...controller(400), "other tenant": 400 }, ({ workspace }) => ({
    path: `/api/sessions/import?workspace=${workspace}`,
    method: "POST",
    body: "not an archive",
  })),
  "DELETE /api/sessions/:id/queue/:turn": spending(
    probe(
      controller(204),
      ({ sessionId, turnId }) => ({ path: `/api/sessions/${sessionId}/queue/${turnId}`, method: "DELETE" }),
      { right: 404 },
    ),
  ),
  "GET /api/permissions": probe(list(), "/api/permissions"),
  "POST /api/permissions/:id": spending(
    probe(
      controller(),
      ({ permission }) => ({
        path: `/api/permissions/${permission}`,
        method: "POST",
        headers: JSON_TYPE,
        body: '{"optionId":"yes"}',
      }),
      { right: 404 },
    ),
  ),
  "POST /api/permissions/:id/links": probe(privileged(201), ({ permission }) => ({
    path: `/api/permissions/${permission}/links`,
    method: "POST",
  })),
  "GET /api/revocations": probe(admin(), "/api/revocations"),
  "POST /api/revocations": [
    probe(admin(201), () => ({
      path: "/api/revocations",
      method: "POST",
      headers: JSON_TYPE,
      body: '{"jti":"lost"}',
    })),
    spending(
      probe({ ...admin(201), "other tenant": 404, "other workspace": 404 }, ({ sessionId }) => ({
        path: "/api/revocations",
        method: "POST",
        headers: JSON_TYPE,
        body: JSON.stringify({ session: sessionId }),
      })),
    ),
  ],
  "DELETE /api/revocations/:id": probe(admin(404), () => ({
    path: `/api/revocations/${crypto.randomUUID()}`,
    method: "DELETE",
  })),
  "GET /api/shares": probe(admin(), "/api/shares"),
  "POST /api/shares": probe(privileged(201), ({ sessionId }) => ({
    path: "/api/shares",
    method: "POST",
    headers: JSON_TYPE,
    body: JSON.stringify({ session: sessionId, expiresIn: 60 }),
  })),
  "DELETE /api/shares/:id": probe(admin(404), () => ({
    path: `/api/shares/${crypto.randomUUID()}`,
    method: "DELETE",
  })),
  "GET /api/audit": probe(admin(), "/api/audit"),
  "GET /api/workspaces": probe(list(), "/api/workspaces"),
  "GET /api/workspaces/:id": [
    probe(beside(), ({ workspace }) => ({ path: `/api/workspaces/${workspace}` }), { "other tenant": 200 }),
    probe(
      beside(),
      ({ workspace }) => ({
        path: `/api/workspaces/${workspace}`,
        headers: { Accept: "text/event-stream" },
      }),
      { "other tenant": 200 },
    ),
  ],
  "PUT /api/workspaces/:id": probe(
    privileged(),
    ({ workspace }) => ({
      path: `/api/workspaces/${workspace}`,
      method: "PUT",
      headers: JSON_TYPE,
      body: '{"policy":{"default":"ask"}}',
    }),
    { "other tenant": 200 },
  ),
  "GET /api/agents": probe(beside(), ({ workspace }) => ({ path: `/api/agents?workspace=${workspace}` }), {
    "other tenant": 200,
  }),
  "GET /api/workspaces/:id/secrets": probe(
    privileged(),
    ({ workspace }) => ({ path: `/api/workspaces/${workspace}/secrets` }),
    { "other tenant": 200 },
  ),
  "PUT /api/workspaces/:id/secrets/:name": probe(
    privileged(204),
    ({ workspace }) => ({
      path: `/api/workspaces/${workspace}/secrets/A_KEY`,
      method: "PUT",
      headers: JSON_TYPE,
      body: '{"value":"something"}',
    }),
    { "other tenant": 204 },
  ),
  "DELETE /api/workspaces/:id/secrets/:name": probe(
    privileged(204),
    ({ workspace }) => ({ path: `/api/workspaces/${workspace}/secrets/B_KEY`, method: "DELETE" }),
    { "other tenant": 204 },
  ),
  "GET /api/workspaces/:id/webhooks": probe(
    { ...controller(), controller: 403 },
    ({ workspace }) => ({ path: `/api/workspaces/${workspace}/webhooks` }),
    { "other tenant": 200 },
  ),
  "POST /api/workspaces/:id/webhooks": probe(
    { ...controller(201), controller: 403 },
    ({ workspace }) => ({
      path: `/api/workspaces/${workspace}/webhooks`,
      method: "POST",
      headers: JSON_TYPE,
      body: '{"url":"https://receiver.test/","events":["agent.failed"]}',
    }),
    { "other tenant": 201 },
  ),
  "DELETE /api/workspaces/:id/webhooks/:webhook": spending(
    probe(
      { ...controller(204), controller: 403 },
      ({ workspace, webhook }) => ({
        path: `/api/workspaces/${workspace}/webhooks/${webhook}`,
        method: "DELETE",
      }),
      // In its own workspace of the same name, where there is no such webhook.
      { "other tenant": 404 },
    ),
  ),
  "POST /api/workspaces/:id/webhooks/:webhook/test": probe(
    { ...controller(202), controller: 403 },
    ({ workspace, webhook }) => ({
      path: `/api/workspaces/${workspace}/webhooks/${webhook}/test`,
      method: "POST",
    }),
    { "other tenant": 404 },
  ),
};

// ---- the tests ------------------------------------------------------------------------------------------

async function makePlace(): Promise<Place> {
  const opened = await openSession();
  const { client, agent, sessionId, workspace } = opened;
  const prompt = (text: string) =>
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  prompt("ask");
  await agent.line();
  agent.items(permissionRequest(77));
  const permission = (await client.takeJson()).id as string;
  prompt("wait");
  // Answered in order: when this is, the prompt is in the queue.
  await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  const bearer = await token({ workspace });
  const view = (await (await fetchAs({ path: `/api/sessions/${sessionId}` }, bearer)).json()) as {
    queue: { turnId: string }[];
  };
  const sharer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT });
  const path = `/api/permissions/${permission}/links`;
  const { links } = (await (await fetchAs({ path, method: "POST" }, sharer)).json()) as {
    links: { url: string }[];
  };
  const answer = links[0]?.url.replace("https://edge.test", "") as string;
  const initialized = await fetchAs(
    { path: "/acp", method: "POST", headers: JSON_TYPE, body: INITIALIZE },
    bearer,
  );
  const connection = initialized.headers.get("Acp-Connection-Id") as string;
  const dialled = await fetchAs({ path: "/acp", headers: RESUME }, bearer);
  dialled.webSocket?.accept();
  const resumable = dialled.headers.get("Acp-Connection-Id") as string;
  const hook = await fetchAs(
    {
      path: `/api/workspaces/${workspace}/webhooks`,
      method: "POST",
      headers: JSON_TYPE,
      // Nobody is there: what is sent comes to nothing.
      body: '{"url":"http://127.0.0.1:9/","events":["agent.failed"]}',
    },
    sharer,
  );
  const { id: webhook } = (await hook.json()) as { id: string };
  const turnId = view.queue[0]?.turnId as string;
  return { ...opened, permission, answer, turnId, connection, resumable, webhook };
}

let shared: Promise<Place> | undefined;

function sharedPlace(): Promise<Place> {
  shared ??= makePlace();
  return shared;
}

/** Straight to the app: each call through the test's entrance takes longer than the one before, and there are many. */
async function fetchAs({ path, ...init }: Ask, bearer: string | undefined): Promise<Response> {
  const authorization = bearer === undefined ? {} : { Authorization: `Bearer ${bearer}` };
  const request = new Request(`https://edge.test${path}`, {
    ...init,
    headers: { ...init.headers, ...authorization },
  });
  return app.fetch(request, env, createExecutionContext());
}

/** Lets go of whatever an answer holds open. */
async function statusOf(response: Response): Promise<number> {
  response.webSocket?.accept();
  response.webSocket?.close();
  await response.body?.cancel();
  return response.status;
}

/** Middleware is no route. */
function routesOfApp(): string[] {
  const routes = app.routes.filter(({ path }) => !path.endsWith("*"));
  return [...new Set(routes.map(({ method, path }) => `${method} ${path}`))].sort();
}

function baseFor({ group }: Probe, workspace: string): Claims {
  const isForHosts = group.controller === 403 && group.host !== 403;
  return { workspaces: [workspace], scopes: isForHosts ? ["host"] : ALL_OF_A_CLIENT };
}

describe("every route and every caller", () => {
  it("is in the table", () => {
    expect(Object.keys(ROUTES).sort()).toEqual(routesOfApp());
  });

  const probes = Object.entries(ROUTES).flatMap(([route, one]) =>
    [one].flat().map((each, n) => [n === 0 ? route : `${route} (${n + 1})`, each] as const),
  );

  it.each(probes)("%s", async (_route, each) => {
    const place = await (each.spends ? makePlace() : sharedPlace());
    const base = baseFor(each, place.workspace);
    const got: Partial<Expected> = {};
    for (const kind of KINDS) {
      const bearer = await CALLERS[kind](base, place);
      got[kind] = await statusOf(await fetchAs(each.ask(place, bearer), bearer));
    }
    expect(got).toEqual({ ...each.group, ...each.differs });
  });
});

describe("what belongs to others and what is not there", () => {
  const unknown = (place: Place): Place => {
    const sessionId = crypto.randomUUID();
    const seq = Number(place.permission.split(":")[1]);
    return {
      ...place,
      sessionId,
      permission: clientRequestId(sessionId, seq),
      connection: crypto.randomUUID(),
      resumable: crypto.randomUUID(),
      webhook: "wh_unknown",
    };
  };
  const withIds = Object.entries(ROUTES).flatMap(([route, one]) =>
    [one].flat().flatMap((each, n) => {
      const hides = each.group["other workspace"] === 404 && each.differs["other tenant"] === undefined;
      return hides && !route.includes("import") && !route.includes("control")
        ? [[`${route} ${n}`, each] as const]
        : [];
    }),
  );

  it("is asked of the routes that name a session or a connection", () => {
    expect(withIds.length).toBeGreaterThanOrEqual(9);
  });

  it.each(withIds)("look the same: %s", async (_route, each) => {
    const place = await sharedPlace();
    const base = baseFor(each, place.workspace);
    const answer = async (at: Place, claims: Claims) => {
      const bearer = await mint(claims);
      const response = await fetchAs(each.ask(at, bearer), bearer);
      return { status: response.status, headers: [...response.headers], body: await response.text() };
    };
    const nothing = await answer(unknown(place), base);
    expect(nothing.status).toBe(404);
    expect(await answer(place, { ...base, tenant: "other" })).toEqual(nothing);
    expect(await answer(place, { ...base, workspaces: ["elsewhere"] })).toEqual(nothing);
  });

  it("take the same way: of a session nothing is read for who may not know of it", async () => {
    const place = await makePlace();
    const session = sessionStub(place.sessionId);
    // Whoever reads the log stumbles; an alarm would, again and again.
    const spoil = (change: string) =>
      runInDurableObject(session, async (_, { storage }) => {
        storage.sql.exec(`UPDATE log SET heads = ${change}`);
        await storage.deleteAlarm();
      });
    await spoil("'spoilt' || heads");
    await evictDurableObject(session);
    const ask = { path: `/api/sessions/${place.sessionId}` };
    const status = async (claims: Claims) => statusOf(await fetchAs(ask, await mint(claims)));
    const claims = { workspaces: [place.workspace], scopes: ALL_OF_A_CLIENT };
    expect(await status({ ...claims, workspaces: ["elsewhere"] })).toBe(404);
    expect(await status({ ...claims, scopes: ["session:read"], tenant: "other" })).toBe(404);
    expect(await status(claims)).toBe(500);
    await spoil("substr(heads, 7)");
    expect(await status(claims)).toBe(200);
  });

  it("look the same to a client on its connection", async () => {
    const { sessionId } = await openSession();
    const workspace = `w-${crypto.randomUUID()}`;
    await Host.join(workspace);
    const stranger = await Client.open(workspace);
    const answers = async (id: string) => {
      const said: string[] = [];
      for (const method of ["load", "resume", "prompt", "close", "delete", "fork", "set_mode"]) {
        const params = { sessionId: id, cwd: "/", mcpServers: [], prompt: [], modeId: "m" };
        const { id: _id, ...response } = (await stranger.request(`session/${method}`, params)).response;
        said.push(JSON.stringify(response).replaceAll(id, "<id>"));
      }
      return said;
    };
    expect(await answers(sessionId)).toEqual(await answers(crypto.randomUUID()));
  });
});
