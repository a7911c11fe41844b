import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { packTar, unpackTar } from "modern-tar";
import { describe, expect, test, vi } from "vitest";
import { joinMessage, RESUMABLE } from "../../../src/protocol/resumable-wire.ts";
import type { Json } from "../../fixtures/json.ts";
import { get, openSession, send, sessionStub } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { Client } from "../peers/client.ts";
import { HttpPeer, INITIALIZE, JSON_TYPE, request } from "../peers/http-client.ts";
import { Peer } from "../peers/peer.ts";
import { ALL_OF_A_CLIENT, mint } from "../tokens.ts";
import {
  begun,
  bytes,
  chunk,
  documents,
  ended,
  OPTION,
  reply,
  Secrets,
  share,
  useTools,
  withoutConnections,
} from "./fixtures.ts";

/** Collects everything a reader gets, up to a word. */
class Ear {
  heard = "";
  readonly #next: () => Promise<string>;

  constructor(next: () => Promise<string>) {
    this.#next = next;
  }

  static of(peer: Peer): Ear {
    return new Ear(() => peer.take());
  }

  static at(response: Response): Ear {
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    return new Ear(async () => {
      const { done, value } = await reader.read();
      if (done) throw new Error("The stream has ended");
      return decoder.decode(value, { stream: true });
    });
  }

  async upTo(word: string): Promise<string> {
    while (!this.heard.includes(word)) this.heard += await this.#next();
    return this.heard;
  }
}

const load = (sessionId: string, more: Json = {}) => ({ sessionId, cwd: "/", mcpServers: [], ...more });
const call = (id: string, method: string, params: Json) =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });

async function dial(path: string, token: string, headers: Record<string, string> = {}): Promise<Response> {
  const response = await exports.default.fetch(`https://edge.test${path}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${token}`, ...headers },
  });
  expect(response.status).toBe(101);
  return response;
}

/** A client on a WebSocket, with the object of its connection. */
async function connect(token: string, path = "/acp", params: Json = { protocolVersion: 1 }) {
  const response = await dial(path, token);
  const client = new Client(response.webSocket as WebSocket);
  await client.request("initialize", params);
  const connection = env.ACP_CONNECTION_DO.getByName(response.headers.get("Acp-Connection-Id") ?? "");
  return { client, connection };
}

async function overHttp(token: string): Promise<HttpPeer> {
  const initialized = await request("POST", token, JSON_TYPE, INITIALIZE);
  const connection = initialized.headers.get("Acp-Connection-Id") ?? "";
  return new HttpPeer(token, connection, (await initialized.json()) as Json);
}

/** A reader for every way to follow a session from its beginning. */
async function readers(token: string, sessionId: string): Promise<Record<string, Ear>> {
  const loading = (await connect(token)).client;
  loading.call("session/load", load(sessionId));
  const resuming = (await connect(token)).client;
  resuming.call("session/resume", load(sessionId, { _meta: { "acp-edge/after": 0 } }));
  const web = (await connect(token, "/agent/ws")).client;
  web.call("session/load", load(sessionId));
  const older = { protocolVersion: "0.3.1", clientCapabilities: { filesRead: true } };
  const old = (await connect(token, "/acp", older)).client;
  old.call("session/load", load(sessionId));

  const http = await overHttp(token);
  await http.call("session/load", load(sessionId));

  const socket = await dial("/acp", token, { "Sec-WebSocket-Protocol": RESUMABLE });
  const resumable = new Peer(socket.webSocket as WebSocket);
  resumable.send(joinMessage({ t: "hello", own: 0, cursors: {} }));
  const lines = [INITIALIZE, call("l", "session/load", load(sessionId))];
  resumable.send(joinMessage({ t: "lines", first: 1 }, lines));

  const live = await exports.default.fetch(`https://edge.test/api/sessions/${sessionId}/events`, {
    headers: { Authorization: `Bearer ${token}`, Accept: "text/event-stream" },
  });
  return {
    "session/load": Ear.of(loading),
    "session/resume": Ear.of(resuming),
    "/agent/ws": Ear.of(web),
    "an older client": Ear.of(old),
    "Streamable HTTP": Ear.at(await http.get(sessionId)),
    "a resumable connection": Ear.of(resumable),
    "the event stream": Ear.at(live),
  };
}

function allUpTo(ears: Record<string, Ear>, word: string): Promise<[string, string][]> {
  return Promise.all(
    Object.entries(ears).map(async ([name, ear]): Promise<[string, string]> => [name, await ear.upTo(word)]),
  );
}

function expectNone(texts: Record<string, string>, secret: string): void {
  const found = Object.keys(texts).filter((path) => texts[path]?.includes(secret));
  expect(found).toEqual([]);
}

describe("a redacted link", () => {
  test("shows the conversation and no tool data in every document", async () => {
    const told = await ended();
    const { workspace, sessionId, secrets, link } = told;
    const owner = await mint({ workspaces: [workspace] });
    const whole = await bytes(`/api/sessions/${sessionId}/events`, owner);
    for (const secret of secrets.told) expect(whole).toContain(secret);
    expect(whole).not.toContain(secrets.concealed());
    // The owner's name, the directory of the workspace, and the ids of the agent's session and process.
    const about = ['"someone"', "/somewhere", "agent-session", told.agent.run];
    for (const word of about) expect(whole).toContain(word);
    const shown = await documents(link, sessionId);
    for (const word of [secrets.mark, ...about]) expectNone(shown, word);
    for (const path of ["/events", "/export", "/export?format=ndjson", "/export?format=markdown"])
      for (const word of ["Have a look", "Let me look.", "Read a file", "Run the tests", "All is well."])
        expect(shown[path]).toContain(word);
    expect(JSON.parse(shown[""] as string)).toMatchObject({
      title: "Looking",
      toolCalls: {
        total: 2,
        items: [{ title: "Read a file", status: "completed" }, { title: "Run the tests" }],
      },
    });
    expect(shown["/export?format=markdown"]).toContain("*[redacted]*");
    expect((await bytes(`/api/sessions/${sessionId}`, owner)).includes(secrets.mark)).toBe(true);

    // A harmless line is unchanged, and every line keeps its place.
    const before = whole.trimEnd().split("\n");
    const after = (shown["/events"] as string).trimEnd().split("\n");
    expect(after).toHaveLength(before.length);
    for (const [i, line] of before.entries())
      if (!line.includes(secrets.mark) && !after[i]?.includes("acp-edge/redacted"))
        expect(withoutConnections(after[i] ?? "")).toBe(
          withoutConnections(
            line
              .replace(/"acpSessionId":"[^"]*"/, '"acpSessionId":null')
              .replace('"sessionId":"agent-session"', `"sessionId":"${sessionId}"`),
          ),
        );
  });

  test("shows people under numbers, the same wherever they appear", async () => {
    const { client, sessionId, workspace, prompt, agent, link } = await begun();
    const ears = await readers(link, sessionId);
    const other = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, sub: "somebody-else" });
    const { id } = await vi.waitFor(async () => {
      const { permissions } = JSON.parse(await bytes("/api/permissions", other)) as {
        permissions: [{ id: string }];
      };
      return permissions[0];
    }, 10_000);
    const answered = await send("POST", `/api/permissions/${id}`, other, { optionId: OPTION.optionId });
    expect(answered.status).toBe(200);
    agent.items(chunk("All is well."));
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await client.until(prompt);
    const heard = Object.fromEntries(await allUpTo(ears, "All is well."));
    const watch = async () => {
      const shown = await documents(link, sessionId);
      for (const text of [shown["/events"], shown["/export?format=ndjson"], heard["the event stream"]]) {
        expect(text).toContain('"owner":"user 1"');
        expect(text).toMatch(/"kind":"permission.responded".*"subject":"user 2"/);
      }
      const { clients } = JSON.parse(shown[""] as string) as { clients: { subject: string }[] };
      // The owner is attached; the bearers of the link appear in no event.
      expect(new Set(clients.map(({ subject }) => subject))).toEqual(new Set(["user 1", "user"]));
      for (const name of ['"someone"', "somebody-else", "share:"]) expectNone({ ...shown, ...heard }, name);
    };
    await watch();
    await evictDurableObject(sessionStub(sessionId));
    await watch();
  });

  test("shows a pending permission request without its subject", async () => {
    const { workspace, sessionId, secrets, link } = await begun();
    const owner = await mint({ workspaces: [workspace] });
    const waiting = () => bytes("/api/permissions", owner);
    await vi.waitFor(async () => expect(await waiting()).toContain(secrets.mark), 10_000);
    const shown = await documents(link, sessionId);
    expectNone(shown, secrets.mark);
    for (const path of ["", "/api/permissions"]) expect(shown[path]).toContain("Run the tests");
    expect(JSON.parse(shown["/api/permissions"] as string)).toMatchObject({
      permissions: [{ options: [OPTION] }],
    });
  });

  test("shows no tool data to a live reader, replayed or new, even after an eviction", async () => {
    const told = await begun();
    const { client, agent, sessionId, secrets, question, prompt, link } = told;
    const ears = await readers(link, sessionId);
    for (const [name, heard] of await allUpTo(ears, "Let me look."))
      expect([name, heard]).toEqual([name, expect.stringContaining("Have a look")]);

    reply(client, question, { outcome: { outcome: "cancelled" } });
    useTools(agent, secrets);
    agent.items(chunk("Live it is."));
    await allUpTo(ears, "Live it is.");

    await evictDurableObject(sessionStub(sessionId));
    useTools(agent, secrets);
    agent.items(
      chunk("Still here."),
      JSON.stringify(["exit", { code: 1, signal: null, stderr: secrets.next() }]),
    );
    await client.until(prompt);
    const again = client.call("session/prompt", {
      sessionId,
      prompt: [{ type: "text", text: "The end of it" }],
    });
    const next = await told.host.agent();
    await next.openSession();
    next.answer(await next.line(), { stopReason: "end_turn" });
    await client.until(again);
    for (const [name, heard] of await allUpTo(ears, "The end of it")) {
      expect([name, heard.includes(secrets.mark)]).toEqual([name, false]);
      for (const word of ["Read a file", "Still here."])
        expect([name, heard.includes(word)]).toEqual([name, true]);
    }
    const theirs = await readers(await share(told), sessionId);
    for (const [name, heard] of await allUpTo(theirs, "The end of it"))
      if (name !== "an older client") expect([name, heard.includes(secrets.mark)]).toEqual([name, true]);
  });

  test("still shows no tool data after the connection's object was evicted", async () => {
    const { agent, sessionId, secrets, link } = await begun();
    const { client, connection } = await connect(link);
    await client.request("session/load", load(sessionId));
    await evictDurableObject(connection);
    await evictDurableObject(sessionStub(sessionId));
    const { before } = await client.request("session/load", load(sessionId));
    expect(JSON.stringify(before)).toContain("Read a file");
    expect(JSON.stringify(before)).not.toContain(secrets.mark);
    useTools(agent, secrets);
    agent.items(chunk("Still here."));
    expect(await Ear.of(client).upTo("Still here.")).not.toContain(secrets.mark);
  });

  test("gains no rights from another token on the same connection", async () => {
    const { workspace, sessionId, secrets, link, agent } = await begun();
    const { client } = await connect(link);
    await client.request("session/load", load(sessionId));
    const http = await overHttp(link);
    const owner = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT });
    const { shares } = (await (await get("/api/shares", owner)).json()) as { shares: [{ id: string }] };
    const same = await mint({ workspaces: [workspace], sub: `share:${shares[0].id}` });
    for (const token of [same, owner, link]) {
      const { response } = await client.request("_acp-edge/renew", { token });
      expect(response.error).toMatchObject({ code: -32003 });
    }
    // No issuer can give a token the subject of a link.
    const other = new HttpPeer(same, http.connection, {});
    expect((await other.post(call("l", "session/load", load(sessionId)), sessionId)).status).toBe(401);
    useTools(agent, secrets);
    agent.items(chunk("Still here."));
    expect(await Ear.of(client).upTo("Still here.")).not.toContain(secrets.mark);
    const { response } = await client.request("session/list", {});
    expect(response.result).toMatchObject({ sessions: [{ sessionId }] });
  });

  test("shows no more of the agent's own reports", async () => {
    const opened = await openSession();
    const secrets = new Secrets();
    const link = await share(opened, true);
    const initialize = { protocolVersion: 1, agentCapabilities: {}, _meta: { vendor: secrets.next() } };
    opened.host.tell({ t: "agent", id: "scripted", initialize });
    const open = await share(opened);
    const initialized = async (token: string) => {
      const client = new Peer((await dial("/acp", token)).webSocket as WebSocket);
      client.send(INITIALIZE);
      return client.take();
    };
    await vi.waitFor(async () => expect(await initialized(open)).toContain(secrets.mark));
    expect(await initialized(link)).not.toContain(secrets.mark);
    opened.host.tell({ t: "agent_failed", id: "scripted", error: `It ended: ${secrets.next()}` });
    const chosen = async (token: string) => {
      const client = new Peer((await dial("/agent/ws", token)).webSocket as WebSocket);
      client.send('{"type":"select_agent","agentType":"scripted"}');
      return Ear.of(client).upTo('"error"');
    };
    expect(await chosen(open)).toContain(secrets.mark);
    expect(await chosen(link)).not.toContain(secrets.mark);
  });

  test("redacts lines of other systems and archived lines", async () => {
    setLimits({ historyChars: 100000, segmentChars: 20000 });
    const told = await ended();
    const { workspace, sessionId, secrets, agent, link } = told;
    for (let i = 0; i < 60; i += 1)
      agent.items(
        ...Array.from({ length: 4 }, (_, k) => chunk(`${i}.${k} `, { _meta: { vendor: "x".repeat(300) } })),
      );
    await agent.durable();
    await runInDurableObject(sessionStub(sessionId), (object) => object.alarm());
    await vi.waitUntil(() =>
      runInDurableObject(
        sessionStub(sessionId),
        (_, { storage }) => storage.sql.exec("SELECT 1 FROM segment").toArray().length > 0,
      ),
    );
    const shown = await documents(link, sessionId);
    expect(shown["/events"]).toContain("log.archived");
    expectNone(shown, secrets.mark);

    const secret = secrets.next();
    const line = (seq: number, kind: string, payload: Json, more: Json = {}) => ({
      ...{ schema: "acpx.event.v1", seq, eventId: `evt-${seq}`, at: "2026-02-27T10:11:12.345Z" },
      ...{ acpxRecordId: told.sessionId, acpSessionId: "s", source: "acpx", kind, payload, ...more },
    });
    const message = { jsonrpc: "2.0", method: "session/update", params: { sessionId: "s", update: {} } };
    const lines = [
      line(1, "vendor.thing", { value: secret }, { extra: secret }),
      line(2, "acp.frame", { direction: "sideways", message: secret }),
      line(3, "acp.frame", { direction: "in", message: { ...message, extra: secret }, extra: secret }),
      line(4, "turn.vendor", { turnId: secret, stopReason: secret }),
    ].map((one) => JSON.stringify(one));
    const body = new TextEncoder().encode(`${lines.join("\n")}\n`);
    const file = {
      header: { name: "events/000000000001.ndjson", size: body.length, type: "file" as const },
      body,
    };
    const owner = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT });
    const imported = await exports.default.fetch("https://edge.test/api/sessions/import?as=new", {
      method: "POST",
      headers: { Authorization: `Bearer ${owner}`, "Content-Type": "application/x-tar" },
      body: await packTar([file]),
    });
    const { sessionId: other } = (await imported.json()) as { sessionId: string };
    const theirs = await documents(await share({ ...told, sessionId: other }, true), other);
    expect(await bytes(`/api/sessions/${other}/events`, owner)).toContain(secret);
    expect(theirs["/events"]).toContain(
      '"kind":"vendor.thing","payload":{"_meta":{"acp-edge/redacted":true}}',
    );
    expectNone(theirs, secret);
  });

  test("exports an archive that can be imported", async () => {
    const { workspace, sessionId, link, secrets } = await ended();
    const tar = await (await get(`/api/sessions/${sessionId}/export`, link)).arrayBuffer();
    const names = (await unpackTar(new Uint8Array(tar), { strict: true })).map(({ header }) => header.name);
    expect(names).toContain("session.json");
    const owner = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT });
    const imported = await exports.default.fetch("https://edge.test/api/sessions/import?as=new", {
      method: "POST",
      headers: { Authorization: `Bearer ${owner}`, "Content-Type": "application/x-tar" },
      body: tar,
    });
    expect(imported.status).toBe(201);
    const { sessionId: copy } = (await imported.json()) as { sessionId: string };
    const text = await bytes(`/api/sessions/${copy}/events`, owner);
    expect(text).toContain("All is well.");
    expect(text).not.toContain(secrets.mark);
  });
});
