import { ALL_OF_A_CLIENT, type Claims } from "../tokens.ts";
import { KINDS, type Kind } from "./callers.ts";
import { type Ask, INITIALIZE, JSON_TYPE, type Place, RESUME, UPGRADE } from "./place.ts";

/**
 * Every route × every kind of caller. A route of the app that has no entry in ROUTES fails the first test. An entry has
 * the request, and the status of each caller only where it differs from the entry's group.
 */

export type Expected = Record<Kind, number>;
type Probe = {
  group: Expected;
  ask: (place: Place, bearer: string | undefined) => Ask;
  differs: Partial<Expected>;
  /** A successful call changes the place, so each caller gets its own. */
  spends?: true;
};

// ---- groups ---------------------------------------------------------------------------------------------

const everyone = (status: number) => Object.fromEntries(KINDS.map((kind) => [kind, status])) as Expected;

const NOT_LET_IN: Expected = {
  ...everyone(401),
  "no scopes": 403,
  host: 403,
  observer: 403,
  controller: 403,
  link: 403,
  "workspace admin": 403,
  "other workspace's admin": 403,
  "tenant admin": 403,
  "only workspace:admin": 403,
  "only tenant:admin": 403,
};

/** Routes of one resource: a caller that may not know of it gets the answer for an unknown one. */
const reader = (ok = 200): Expected => ({
  ...NOT_LET_IN,
  "other tenant": 404,
  "other workspace": 404,
  observer: ok,
  controller: ok,
  "workspace admin": ok,
  "other workspace's admin": 404,
  "tenant admin": 404,
  link: ok,
  right: ok,
});
/** Routes beside the session, which the bearer of a share link may not know of. */
const beside = (ok = 200): Expected => ({ ...reader(ok), link: 404 });
const controller = (ok = 200): Expected => ({ ...reader(ok), observer: 403, "tenant admin": 403, link: 403 });
const privileged = (ok = 200): Expected => ({ ...controller(ok), controller: 403 });
/** Routes of the caller's own resources, which every caller has. */
const list = (ok = 200): Expected => ({
  ...reader(ok),
  "other tenant": ok,
  "other workspace": ok,
  "other workspace's admin": ok,
  "tenant admin": ok,
});
/** Routes of administrators: of workspaces, each for their own, and of the tenant. */
const admin = (ok = 200): Expected => ({
  ...list(ok),
  observer: 403,
  controller: 403,
  link: 403,
  "only workspace:admin": ok,
  "only tenant:admin": ok,
});
/** Routes of the whole tenant. */
const tenantAdmin = (ok = 200): Expected => ({
  ...admin(ok),
  "workspace admin": 403,
  "other workspace's admin": 403,
  "only workspace:admin": 403,
});
/** Routes of callers that may share, each for their own sessions. */
const sharer = (ok = 200): Expected => ({
  ...admin(ok),
  "tenant admin": 403,
  "only workspace:admin": 403,
  "only tenant:admin": 403,
});
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
const session = (rest: string, more: Omit<Ask, "path"> = {}) => {
  return ({ sessionId }: Place): Ask => ({ path: `/api/sessions/${sessionId}${rest}`, ...more });
};

const revoking = (order: object): Ask => ({
  path: "/api/revocations",
  method: "POST",
  headers: JSON_TYPE,
  body: JSON.stringify(order),
});

export const ROUTES: Record<string, Probe | Probe[]> = {
  "GET /healthz": probe(everyone(200), "/healthz"),
  "GET /": probe(everyone(200), "/"),
  "ALL /acp": [
    probe(reader(101), ({ workspace }) => ({ path: `/acp?workspace=${workspace}`, headers: UPGRADE }), {
      // The other tenant has its own workspace of the same name.
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
        // The first permitted caller has ended it.
        { controller: 404, "workspace admin": 404, right: 404 },
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
  // The link alone gives the right, so no token makes a difference.
  "GET /answer": [
    probe(everyone(200), ({ answer }) => ({ path: answer })),
    probe(everyone(200), ({ form }) => ({ path: form })),
    probe(everyone(404), (_place, bearer) => ({
      path: `/answer?link=${bearer}`,
      headers: { Accept: "application/json" },
    })),
  ],
  "POST /answer": [
    spending(
      // The first caller has answered.
      probe(everyone(410), ({ answer }) => ({ path: answer, method: "POST" }), { none: 200 }),
    ),
    spending(
      probe(
        everyone(410),
        ({ form }) => ({ path: form, method: "POST", headers: JSON_TYPE, body: '{"action":"decline"}' }),
        { none: 200 },
      ),
    ),
  ],
  // A gateway without an OpenID provider has no login to begin, whoever asks.
  "GET /login": probe(everyone(404), "/login"),
  "GET /login/callback": probe(everyone(400), "/login/callback?code=c&state=s"),
  "GET /api/login": probe(everyone(200), "/api/login"),
  "GET /.well-known/oauth-protected-resource": probe(everyone(200), "/.well-known/oauth-protected-resource"),
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
      ...{ "workspace admin": 200, "other workspace's admin": 200, "tenant admin": 200 },
      ...{ "only workspace:admin": 200, "only tenant:admin": 200 },
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
  "PATCH /api/sessions/:id": probe(
    controller(),
    session("", { method: "PATCH", headers: JSON_TYPE, body: JSON.stringify({ title: "A title" }) }),
  ),
  "DELETE /api/sessions/:id/queue/:turn": spending(
    probe(
      controller(204),
      ({ sessionId, turnId }) => ({ path: `/api/sessions/${sessionId}/queue/${turnId}`, method: "DELETE" }),
      { "workspace admin": 404, right: 404 },
    ),
  ),
  "GET /api/permissions": probe(list(), "/api/permissions"),
  "GET /api/usage": probe(list(), "/api/usage"),
  "GET /api/permissions/:id": probe(controller(), ({ permission }) => ({
    path: `/api/permissions/${permission}`,
  })),
  "POST /api/permissions/:id": spending(
    probe(
      controller(),
      ({ permission }) => ({
        path: `/api/permissions/${permission}`,
        method: "POST",
        headers: JSON_TYPE,
        body: '{"optionId":"yes"}',
      }),
      { "workspace admin": 404, right: 404 },
    ),
  ),
  "POST /api/permissions/:id/links": probe(privileged(201), ({ permission }) => ({
    path: `/api/permissions/${permission}/links`,
    method: "POST",
  })),
  "GET /api/questions": probe(list(), "/api/questions"),
  "GET /api/questions/:id": probe(controller(), ({ question }) => ({ path: `/api/questions/${question}` })),
  "POST /api/questions/:id": spending(
    probe(
      controller(),
      ({ question }) => ({
        path: `/api/questions/${question}`,
        method: "POST",
        headers: JSON_TYPE,
        body: '{"action":"accept","content":{"name":"Ada"}}',
      }),
      { "workspace admin": 404, right: 404 },
    ),
  ),
  "POST /api/questions/:id/links": probe(privileged(201), ({ question }) => ({
    path: `/api/questions/${question}/links`,
    method: "POST",
  })),
  "GET /api/revocations": probe(admin(), "/api/revocations"),
  "POST /api/revocations": [
    probe(tenantAdmin(201), () => revoking({ jti: "lost" })),
    probe(tenantAdmin(201), () => revoking({ subject: "lost" })),
    probe({ ...admin(201), "other workspace's admin": 403 }, ({ workspace }) =>
      revoking({ jti: "lost", workspace }),
    ),
    spending(
      probe({ ...admin(201), "other tenant": 404, "other workspace's admin": 404 }, ({ sessionId }) =>
        revoking({ session: sessionId }),
      ),
    ),
  ],
  "DELETE /api/revocations/:id": probe(admin(404), () => ({
    path: `/api/revocations/${crypto.randomUUID()}`,
    method: "DELETE",
  })),
  "GET /api/shares": probe(sharer(), "/api/shares"),
  "POST /api/shares": probe(privileged(201), ({ sessionId }) => ({
    path: "/api/shares",
    method: "POST",
    headers: JSON_TYPE,
    body: JSON.stringify({ session: sessionId, expiresIn: 60 }),
  })),
  "DELETE /api/shares/:id": probe(sharer(404), () => ({
    path: `/api/shares/${crypto.randomUUID()}`,
    method: "DELETE",
  })),
  "GET /api/audit": probe(admin(), "/api/audit"),
  // Without a workspace: the whole tenant.
  "GET /api/admin/reindex": [
    probe(tenantAdmin(), "/api/admin/reindex"),
    probe({ ...admin(), "other workspace's admin": 404 }, ({ workspace }) => ({
      path: `/api/admin/reindex?workspace=${workspace}`,
    })),
  ],
  "POST /api/admin/reindex": [
    spending(
      probe({ ...admin(202), "other tenant": 404, "other workspace's admin": 404 }, ({ workspace }) => ({
        path: "/api/admin/reindex",
        method: "POST",
        headers: JSON_TYPE,
        body: JSON.stringify({ workspace }),
      })),
    ),
    spending(probe(tenantAdmin(202), () => ({ path: "/api/admin/reindex", method: "POST" }))),
  ],
  "GET /api/security": probe(admin(), "/api/security"),
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
      // The other tenant's workspace of the same name has no such webhook. The first permitted caller has deleted it.
      { "other tenant": 404, right: 404 },
    ),
  ),
  "POST /api/workspaces/:id/webhooks/:webhook/adopt": probe(
    privileged(),
    ({ workspace, webhook }) => ({
      path: `/api/workspaces/${workspace}/webhooks/${webhook}/adopt`,
      method: "POST",
    }),
    { "other tenant": 404 },
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

/** The status of a response, whose socket and body are closed. */
export async function statusOf(response: Response): Promise<number> {
  response.webSocket?.accept();
  response.webSocket?.close();
  await response.body?.cancel();
  return response.status;
}

export function baseFor({ group }: Probe, workspace: string): Claims {
  const isForHosts = group.controller === 403 && group.host !== 403;
  return { workspaces: [workspace], scopes: isForHosts ? ["host"] : ALL_OF_A_CLIENT };
}
