import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { AGENT_METHODS, CLIENT_METHODS } from "@agentclientprotocol/sdk";
import { describe, expect, test, vi } from "vitest";
import { ExtensionMethod } from "../../../src/protocol/extensions.ts";
import * as container from "../../fixtures/dialects/container-data-model.ts";
import * as local from "../../fixtures/dialects/local-mcp-servers.ts";
import * as web from "../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../fixtures/json.ts";
import { events, sessionStub, workspaceStub } from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { HttpPeer, INITIALIZE, JSON_TYPE, request as overHttp } from "../peers/http-client.ts";
import { Peer } from "../peers/peer.ts";
import { Resumable } from "../peers/resumable-client.ts";
import { fetchAs, makePlace, type Place } from "../routes/place.ts";
import { ROUTES, statusOf } from "../routes/table.ts";
import { CONTROLLER, mint } from "../tokens.ts";
import { linkTo } from "./fixtures.ts";

/**
 * Every reader × every message and route that could write. The methods come from the SDK and from our own catalogue, the
 * routes from the table of routes, which lists every route of the app: a new one is tried here without an entry.
 */

/** The messages that a reader may send; the other methods must leave no trace. */
const ALLOWED = new Set<string>([
  ...["initialize", "session/load", "session/resume", "session/list"],
  ...[ExtensionMethod.renewToken, ExtensionMethod.ping],
]);

const METHODS = [
  ...new Set<string>([
    ...Object.values(AGENT_METHODS),
    ...Object.values(CLIENT_METHODS),
    ...Object.values(ExtensionMethod),
    // Of the dialects, and methods that nobody knows.
    ...["session/respond_to_permission", "session/set_title", "logout", "$/cancel_request", "_vendor/x", "x"],
  ]),
].filter((method) => !ALLOWED.has(method));

const MARK = "no-trace-of-this";

type Reader = { readonly bearer: string; readonly query: string; readonly mayRead: boolean };

const READERS: Record<string, (place: Place, subject: string) => Promise<Reader>> = {
  "a redacted link": async ({ workspace, sessionId }) =>
    own(await linkTo(workspace, sessionId, true), workspace),
  "a plain link": async ({ workspace, sessionId }) => own(await linkTo(workspace, sessionId), workspace),
  "a token that may read": async ({ workspace }, sub) =>
    own(await mint({ workspaces: [workspace], scopes: ["session:read"], sub }), workspace),
  "an observer by its own wish": async ({ workspace }, sub) =>
    own(await mint({ workspaces: [workspace], sub }), `${workspace}&role=observer`),
  "a token of another workspace": async (_, sub) =>
    stranger(await mint({ workspaces: ["elsewhere"], scopes: CONTROLLER, sub })),
  "a token of another tenant": async (_, sub) =>
    stranger(await mint({ tenant: "other", workspaces: ["elsewhere"], scopes: CONTROLLER, sub })),
};

const own = (bearer: string, workspace: string): Reader => ({
  ...{ bearer, mayRead: true },
  query: `?workspace=${workspace}`,
});
const stranger = (bearer: string): Reader => ({ bearer, query: "?workspace=elsewhere", mayRead: false });

/** A way to send a message. `load` loads the session after everything that was sent has been dealt with. */
type Way = {
  send(text: string, session: string | undefined): Promise<void>;
  load(sessionId: string): Promise<Json>;
};

const loadParams = (sessionId: string) => ({ sessionId, cwd: "/", mcpServers: [] });

async function overSocket({ bearer, query }: Reader, path: string, initialize: string): Promise<Way> {
  const peer = await Peer.connect(`${path}${query}`, bearer);
  const client = new Client(peer.socket);
  client.send(initialize);
  await client.until((JSON.parse(initialize) as Json).id);
  return {
    send: async (text) => client.send(text),
    load: async (sessionId) => {
      client.send(
        JSON.stringify({
          jsonrpc: "2.0",
          id: "fence",
          method: "session/load",
          params: loadParams(sessionId),
        }),
      );
      return (await client.until("fence")).response;
    },
  };
}

async function overStreamableHttp({ bearer, query }: Reader): Promise<Way> {
  const response = await fetchAs(
    { path: `/acp${query}`, method: "POST", headers: JSON_TYPE, body: INITIALIZE },
    bearer,
  );
  const connection = response.headers.get("Acp-Connection-Id") ?? "";
  const peer = new HttpPeer(bearer, connection, (await response.json()) as Json);
  const stream = await peer.stream();
  return {
    send: async (text, session) => {
      const headers = { ...JSON_TYPE, ...peer.headers(session) };
      await (await overHttp("POST", bearer, headers, text)).text();
    },
    load: async (sessionId) => {
      const id = await peer.call("session/load", loadParams(sessionId));
      return (await stream.until(id)).at(-1)?.message ?? {};
    },
  };
}

async function overResumableWire({ bearer, query }: Reader): Promise<Way> {
  const client = await Resumable.open(query.replace(/^\?workspace=|&.*$/g, ""), {
    bearer,
    query: query.includes("role=observer") ? "&role=observer" : "",
  });
  return {
    send: async (text) => client.send([JSON.parse(text) as Json]),
    load: (sessionId) => client.request("session/load", loadParams(sessionId)),
  };
}

const canonical = JSON.stringify({
  ...{ jsonrpc: "2.0", id: "i", method: "initialize" },
  params: { protocolVersion: 1, clientCapabilities: {} },
});
const WAYS: Record<string, (reader: Reader) => Promise<Way>> = {
  "a WebSocket": (reader) => overSocket(reader, "/acp", canonical),
  "/agent/ws": (reader) => overSocket(reader, "/agent/ws", canonical),
  "the container dialect": (reader) => overSocket(reader, "/acp", container.initialize),
  "the local dialect": (reader) => overSocket(reader, "/acp", local.initialize),
  "the web dialect": (reader) => overSocket(reader, "/agent/ws", web.initialize),
  "Streamable HTTP": overStreamableHttp,
  "the resumable wire": overResumableWire,
};

/** Everything that could be written by, whatever the method. */
function messages({ sessionId, permission, turnId }: Place): string[] {
  const mcpServers = [{ name: MARK, command: MARK, args: [], env: [{ name: "KEY", value: MARK }] }];
  const params = {
    ...{ sessionId, cwd: "/", mcpServers, prompt: [{ type: "text", text: MARK }], content: MARK },
    ...{ modeId: MARK, modelId: MARK, configId: MARK, value: MARK, methodId: MARK, turnId, title: MARK },
    ...{ requestId: permission, optionKind: "allow_once", outcome: "allow_once", _meta: { key: MARK } },
  };
  const outcome = { outcome: { outcome: "selected", optionId: "yes" } };
  const forms = METHODS.flatMap((method) => [
    { id: `q-${method}`, method, params },
    { method, params },
    { id: `w-${method}`, method, params: { mcpServers, cwd: "/" } },
  ]);
  return [
    ...forms,
    // A request to read is no notification.
    ...["session/load", "session/resume"].map((method) => ({ method, params })),
    ...[
      { id: permission, result: outcome },
      { id: permission, error: { code: -32601, message: MARK } },
    ],
    { id: `${sessionId}:1`, result: { mcpServers, text: MARK } },
    { sessionId, text: MARK },
  ].map((message) => JSON.stringify({ jsonrpc: "2.0", ...message }));
}

/** The tables of the index, and the column that names the workspace. */
const INDEXED = [
  ["sessions", "workspace"],
  ["permissions", "workspace"],
  ["workspaces", "id"],
] as const;

type Rows = Record<string, string[]>;

/** Every row of every table of an object. */
function tablesOf(object: DurableObjectStub): Promise<Rows> {
  return runInDurableObject(object, (_, { storage: { sql } }) => {
    const names = sql.exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'").toArray();
    const tables = names.map(({ name }) => name).filter((name) => !name.startsWith("_cf"));
    return Object.fromEntries(
      tables.map((name) => [
        name,
        sql
          .exec(`SELECT * FROM "${name}"`)
          .toArray()
          .map((row) => JSON.stringify(row)),
      ]),
    );
  });
}

/** The tables without rows of the readers themselves, and without the times at which something is due. */
function withoutOwn(tables: Rows, ...marks: string[]): Rows {
  const rest = Object.entries(tables).filter(([name]) => name !== "deadline" && name !== "snapshot");
  return Object.fromEntries(
    rest.map(([name, rows]) => [name, rows.filter((row) => !marks.some((mark) => row.includes(mark)))]),
  );
}

async function state({ sessionId, workspace }: Place, ...marks: string[]) {
  const { log: _, client, ...session } = withoutOwn(await tablesOf(sessionStub(sessionId)));
  const indexed = await env.INDEX.batch(
    INDEXED.map(([table, column]) =>
      env.INDEX.prepare(`SELECT count(*) AS n FROM ${table} WHERE ${column} = ?`).bind(workspace),
    ),
  );
  // Every token that is met comes into the tenant's list, that of this test included.
  const {
    socket = [],
    token: _tokens,
    ...tenant
  } = withoutOwn(await tablesOf(env.TENANT_DO.getByName("acme")), "share:", ...marks);
  return {
    session,
    // The readers' own attachments.
    clients: client?.filter((row) => row.includes("someone")),
    workspace: withoutOwn(await tablesOf(workspaceStub(workspace))),
    tenant,
    // Sockets of other tests come and go.
    sockets: socket.filter((row) => row.includes(workspace)),
    index: indexed.map(({ results }) => results),
  };
}

/** A place whose rows in the index are written, so that whatever changes afterwards was changed by a reader. */
async function settledPlace(): Promise<Place> {
  const place = await makePlace();
  await vi.waitFor(
    async () => {
      expect((await state(place)).index).toEqual(INDEXED.map(() => [{ n: 1 }]));
      const { deadline = [] } = await tablesOf(sessionStub(place.sessionId));
      expect(deadline.filter((row) => row.includes('"index"'))).toEqual([]);
      expect(JSON.stringify((await tablesOf(workspaceStub(place.workspace))).setting)).toContain("indexed");
    },
    { timeout: 10_000, interval: 50 },
  );
  return place;
}

const lastSeq = async (place: Place) => (await events(place.workspace, place.sessionId)).length;

/** Messages that the host and the agent get from now on. */
function heardBy({ host, agent }: Place): unknown[] {
  const heard: unknown[] = [];
  for (const { socket } of [host, agent.link])
    socket.addEventListener("message", ({ data }) => heard.push(data));
  return heard;
}

/** Observing by wish is a property of a connection: over REST, the token alone counts. */
const BY_TOKEN = Object.keys(READERS).filter((name) => name !== "an observer by its own wish");

describe("[I12] a reader", { timeout: 180_000 }, () => {
  test.each(Object.keys(READERS))("writes nothing by any message: %s", async (name) => {
    const place = await settledPlace();
    const subject = `reader-${crypto.randomUUID()}`;
    const reader = await (READERS[name] as (typeof READERS)[string])(place, subject);
    const heard = heardBy(place);
    for (const [transport, open] of Object.entries(WAYS)) {
      const way = await open(reader);
      const before = await state(place, subject);
      const seq = await lastSeq(place);
      for (const message of messages(place)) {
        const { params } = JSON.parse(message) as { params?: { sessionId?: string } };
        await way.send(message, params?.sessionId);
      }
      const loaded = await way.load(place.sessionId);
      if (reader.mayRead) expect(loaded, transport).toHaveProperty("result");
      else expect(loaded, transport).toMatchObject({ error: { code: -32002 } });
      const added = await events(place.workspace, place.sessionId, `?after=${seq}`);
      const kinds = added.map(({ kind, payload }) => [kind, (payload as Json).stop, (payload as Json).role]);
      expect(kinds, transport).toEqual(reader.mayRead ? OF_A_LOAD : []);
      expect(JSON.stringify(added), transport).not.toContain(MARK);
      expect(JSON.stringify(added).length, transport).toBeLessThan(5000);
      expect(await state(place, subject), transport).toEqual(before);
    }
    expect(heard).toEqual([]);
  });

  test.each(BY_TOKEN)("writes nothing by any route: %s", async (name) => {
    const place = await settledPlace();
    const subject = `reader-${crypto.randomUUID()}`;
    const { bearer } = await (READERS[name] as (typeof READERS)[string])(place, subject);
    const heard = heardBy(place);
    const before = await state(place, subject);
    const seq = await lastSeq(place);
    for (const [route, probes] of Object.entries(ROUTES)) {
      // The link itself gives the right to answer, and connections were tried above.
      if (/ \/(answer|acp|agent\/ws)$/.test(route)) continue;
      for (const probe of [probes].flat()) await statusOf(await fetchAs(probe.ask(place, bearer), bearer));
      expect(await lastSeq(place), route).toBe(seq);
      expect(await state(place, subject), route).toEqual(before);
    }
    expect(heard).toEqual([]);
  });
});

/** The events of one request to read. */
const OF_A_LOAD = [
  ["acp.frame", "reader", undefined],
  ["session.loaded", undefined, "observer"],
  ["acp.frame", "reader", undefined],
];
