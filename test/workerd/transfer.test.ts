import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { type ParsedTarEntryWithData, packTar, unpackTar } from "modern-tar";
import { describe, expect, it, vi } from "vitest";
import type { Caller } from "../../src/protocol/caller.ts";
import { LOG_SCHEMA } from "../../src/session/log/event-log.ts";
import {
  type Agent,
  Client,
  events,
  eventsText,
  get,
  Host,
  type Opened,
  openSession,
  sessionStub,
  token,
  updateText,
} from "./harness.ts";

type Json = Record<string, unknown>;

const prompt = (sessionId: string, text = "go") => ({ sessionId, prompt: [{ type: "text", text }] });

// ---- helpers ------------------------------------------------------------------------------------------

async function download(workspace: string, sessionId: string, format: string): Promise<Response> {
  const response = await get(
    `/api/sessions/${sessionId}/export?format=${format}`,
    await token({ workspace }),
  );
  expect(response.status).toBe(200);
  return response;
}

type Files = Map<string, string>;

function filesOf(entries: ParsedTarEntryWithData[]): Files {
  return new Map(entries.map(({ header, data }) => [header.name, new TextDecoder().decode(data)]));
}

async function archive(workspace: string, sessionId: string): Promise<Files> {
  const response = await download(workspace, sessionId, "acpx");
  return filesOf(await unpackTar(new Uint8Array(await response.arrayBuffer()), { strict: true }));
}

function tarOf(files: Iterable<readonly [string, string]>): Promise<Uint8Array<ArrayBuffer>> {
  return packTar(
    [...files].map(([name, text]) => {
      const body = new TextEncoder().encode(text);
      return { header: { name, size: body.length, type: "file" as const }, body };
    }),
  );
}

async function upload(
  body: BodyInit,
  {
    workspace,
    tenant = "acme",
    query = "",
    type = "application/x-tar",
  }: { workspace: string; tenant?: string; query?: string; type?: string },
): Promise<{ status: number; json: Json & { sessionId?: string; error?: Json } }> {
  const response = await exports.default.fetch(`https://edge.test/api/sessions/import${query}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${await token({ workspace, tenant })}`, "Content-Type": type },
    body,
  });
  return { status: response.status, json: (await response.json()) as Json };
}

/** An envelope of another system, with what our own never have. */
function foreign(sessionId: string, seq: number, more: Json = {}): string {
  return JSON.stringify({
    schema: "acpx.event.v1",
    seq,
    eventId: `evt-${seq}`,
    at: `2026-02-27T10:11:${String(12 + (seq % 40)).padStart(2, "0")}.345Z`,
    acpxRecordId: sessionId,
    acpSessionId: "foreign-session",
    source: "acpx",
    kind: "vendor.thing",
    payload: {},
    ...more,
  });
}

const segments = (files: Files) => [...files].filter(([name]) => name.startsWith("events/"));

const emptyState = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, state) =>
    state.storage.sql
      .exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE name IN ('log', 'log_part', 'session', 'snapshot', 'client', 'deadline')",
      )
      .toArray(),
  );

async function deleteSession(sessionId: string): Promise<void> {
  const caller: Caller = {
    tenant: "acme",
    subject: "someone",
    workspaces: ["*"],
    scopes: ["session:prompt"],
    expires: 0,
  };
  expect(await sessionStub(sessionId).delete(caller)).toBe(true);
}

const ODD = [
  '{"method":""}',
  '{"params":{"update":{"z":12345678901234567890,"a":1.0,"u":"\\u00e9\\ud83d","x":null},"sessionId":"agent-session","_meta":{"b":1,"a":2}},"method":"session/update","jsonrpc":"2.0"}',
  '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"agent-session","update":{"sessionUpdate":"from_the_future","n":1e400,"2":0,"1":0}}}',
  '{"jsonrpc": "2.0",  "method": "_vendor/x", "params": [1, 2.50, "€😀"], "method": "_vendor/y"}',
  '{"jsonrpc":"2.0","method":"_esc","params":{"k\\u0065y":"\\/","message":{"message":1}}}',
];

function big(chars: number, fill = "x"): string {
  return `{"jsonrpc":"2.0","method":"_big","params":{"text":"${fill.repeat(chars)}"}}`;
}

/** A session with a turn, odd frames and large ones. */
async function eventful(): Promise<{
  workspace: string;
  sessionId: string;
  agent: Agent;
  client: Client;
  host: Host;
}> {
  const session = await openSession();
  const { client, agent, sessionId } = session;
  const id = client.call("session/prompt", prompt(sessionId));
  const request = await agent.line();
  agent.items(...ODD, big(700_000, "€"), big(1_999_900), big(2_000_000));
  agent.items(big(5_000_000), updateText("between"), big(10));
  agent.answer(request, { stopReason: "end_turn" });
  await client.until(id);
  return session;
}

// ---- tests --------------------------------------------------------------------------------------------

describe("an archive", () => {
  it("has the files of the acpx session model", async () => {
    const { workspace, sessionId, client, agent } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(id);
    const response = await download(workspace, sessionId, "acpx");
    expect(response.headers.get("Content-Type")).toBe("application/x-tar");
    expect(response.headers.get("Content-Disposition")).toBe(
      `attachment; filename="acp-session-${sessionId}.tar"`,
    );
    const files = filesOf(await unpackTar(new Uint8Array(await response.arrayBuffer()), { strict: true }));
    expect([...files.keys()]).toEqual([
      "events/000000000001.ndjson",
      "session.json",
      "index/turns.json",
      "index/latest.json",
    ]);
    const log = await eventsText(workspace, sessionId);
    expect(files.get("events/000000000001.ndjson")).toBe(log);
    const lastSeq = log.trimEnd().split("\n").length;
    expect(JSON.parse(files.get("session.json") as string)).toMatchObject({
      schema: "acpx.session.v1",
      acpxRecordId: sessionId,
      log: { lastSeq, activeSegment: "events/000000000001.ndjson" },
    });
    expect(JSON.parse(files.get("index/latest.json") as string)).toMatchObject({ lastSeq, segments: 1 });
    expect(JSON.parse(files.get("index/turns.json") as string)).toMatchObject([
      { status: "completed", stopReason: "end_turn", startSegment: "events/000000000001.ndjson" },
    ]);
  });

  it("comes back byte for byte, from 13 bytes to 5 MB", async () => {
    const { workspace, sessionId } = await eventful();
    const before = await archive(workspace, sessionId);
    expect(segments(before).length).toBeGreaterThan(1);
    await deleteSession(sessionId);
    const { status, json } = await upload(await tarOf(before), { workspace });
    expect({ status, json }).toMatchObject({ status: 201, json: { sessionId } });
    const after = await archive(workspace, sessionId);
    for (const [name, text] of segments(before)) expect(after.get(name) === text, name).toBe(true);
    // What happened here is in a file of its own.
    const added = segments(after).slice(segments(before).length);
    expect(added).toHaveLength(1);
    expect(JSON.parse(added[0]?.[1].split("\n")[0] as string)).toMatchObject({ kind: "session.imported" });
    // And once more, through storage, with what was added.
    await evictDurableObject(sessionStub(sessionId));
    await deleteSession(sessionId);
    await upload(await tarOf(after), { workspace });
    const again = await archive(workspace, sessionId);
    for (const [name, text] of segments(after)) expect(again.get(name) === text, name).toBe(true);
  });

  it("of our own is stored as tightly as it was", async () => {
    const { workspace, sessionId, agent } = await openSession();
    agent.items(...Array.from({ length: 500 }, (_, i) => updateText(`chunk ${i}`)));
    await agent.durable();
    const rows = () =>
      runInDurableObject(sessionStub(sessionId), (_, state) =>
        state.storage.sql.exec("SELECT seq, at, ids, context, heads, body FROM log ORDER BY seq").toArray(),
      );
    const before = await rows();
    const files = await archive(workspace, sessionId);
    await deleteSession(sessionId);
    await upload(await tarOf(files), { workspace });
    expect((await rows()).slice(0, before.length)).toEqual(before);
  });

  it("of another system keeps every byte: ids, sources, kinds, fields, order and white space", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const sessionId = crypto.randomUUID();
    const odd = [
      foreign(sessionId, 1, {
        kind: "acp.frame",
        payload: {
          direction: "out",
          message: { jsonrpc: "2.0", id: 0, method: "session/new", params: { cwd: "/repo", mcpServers: [] } },
        },
      }),
      foreign(sessionId, 2, { futureField: { a: [1, 2] }, payload: { n: 1 } }),
      `{ "payload": {"big": 12345678901234567890, "f": 1.0}, "schema":"acpx.event.v1","seq":3, "eventId":"x", "at":"2026-02-27T10:11:12Z","acpxRecordId":"${sessionId}","kind":"queue.unheard_of"}`,
      foreign(sessionId, 4, {
        kind: "acp.frame",
        payload: { message: [1, 2], direction: "sideways", more: true },
      }),
      foreign(sessionId, 5, {
        kind: "acp.frame",
        payload: { direction: "in", message: { id: 1, result: {} }, extra: { deep: 1 }, re: "no number" },
      }),
      `${foreign(sessionId, 6)}\r`,
      foreign(sessionId, 7, { payload: { text: "y".repeat(3_000_000) } }),
    ];
    const text = odd.map((line) => `${line}\n`).join("");
    const { status } = await upload(await tarOf([[`${sessionId}/events/000000000001.ndjson`, text]]), {
      workspace,
    });
    expect(status).toBe(201);
    const files = await archive(workspace, sessionId);
    expect(files.get("events/000000000001.ndjson") === text).toBe(true);
    expect(await eventsText(workspace, sessionId, "?after=2&limit=1")).toBe(`${odd[2]}\n`);
  });
});

describe("an imported session", () => {
  it("belongs to who imported it, and to nobody else", async () => {
    const { workspace, sessionId } = await openSession();
    const files = await archive(workspace, sessionId);
    await deleteSession(sessionId);
    const other = `w-${crypto.randomUUID()}`;
    expect((await upload(await tarOf(files), { workspace: other })).status).toBe(201);
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace: other }));
    expect(await view.json()).toMatchObject({ workspace: { name: other }, agentStatus: "gone", host: null });
    const stranger = await token({ workspace: other, tenant: "evil" });
    expect((await get(`/api/sessions/${sessionId}`, stranger)).status).toBe(404);
    const [row] = (
      await env.INDEX.prepare("SELECT tenant, workspace FROM sessions WHERE id = ?").bind(sessionId).all()
    ).results;
    expect(row).toEqual({ tenant: "acme", workspace: other });
  });

  it("has nothing of what was going on, and runs again with the next prompt", async () => {
    const { workspace, sessionId, agent, client, host } = await openSession();
    client.call("session/prompt", prompt(sessionId, "first"));
    await agent.line();
    client.call("session/prompt", prompt(sessionId, "second"));
    agent.items(
      '{"jsonrpc":"2.0","id":"p-1","method":"session/request_permission","params":{"sessionId":"agent-session","toolCall":{"toolCallId":"t"},"options":[]}}',
    );
    await agent.durable();
    const files = await archive(workspace, sessionId);
    await deleteSession(sessionId);
    await upload(await tarOf(files), { workspace });
    const view = (await (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json()) as Json;
    expect(view).toMatchObject({ agentStatus: "gone", turn: null, queue: [], host: null });
    const kinds = (await events(workspace, sessionId)).map((event) => event.kind);
    expect(
      kinds.slice(kinds.indexOf("session.imported")).filter((kind) => kind === "turn.failed"),
    ).toHaveLength(2);

    const newcomer = await Client.open(workspace);
    const { response } = await newcomer.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(response.error).toBeUndefined();
    const id = newcomer.call("session/prompt", prompt(sessionId, "again"));
    const next = await host.agent();
    await next.openSession();
    const request = await next.line();
    expect(request.params).toMatchObject({ prompt: [{ text: "again" }] });
    next.answer(request, { stopReason: "end_turn" });
    expect((await newcomer.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  it("gets a new id with as=new, in every envelope, beside the one it is a copy of", async () => {
    const { workspace, sessionId } = await openSession();
    const files = await archive(workspace, sessionId);
    const original = files.get("events/000000000001.ndjson") as string;
    const { status, json } = await upload(await tarOf(files), { workspace, query: "?as=new" });
    expect(status).toBe(201);
    expect(json.sessionId).not.toBe(sessionId);
    const copy = await archive(workspace, json.sessionId as string);
    expect(copy.get("events/000000000001.ndjson")).toBe(
      original.replaceAll(`"acpxRecordId":"${sessionId}"`, `"acpxRecordId":"${json.sessionId}"`),
    );
    expect((await archive(workspace, sessionId)).get("events/000000000001.ndjson")).toBe(original);
  });

  describe("as=new, never goes on in the agent's session of the original", () => {
    const able = { loadSession: true, sessionCapabilities: { resume: {}, fork: {} } };

    /** What the agent of a copy is asked to open when it gets its first prompt. */
    async function opening({ workspace, host, client }: Opened, sessionId: string): Promise<Json> {
      await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
      client.call("session/prompt", prompt(sessionId, "in the copy"));
      const agent = await host.agent();
      const request = await agent.line();
      agent.answer(request, { sessionId: "of the copy" });
      const params = (await agent.line()).params as Json;
      expect(params.sessionId).toBe("of the copy");
      expect(
        await (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json(),
      ).toMatchObject({
        identity: { acpSessionId: "of the copy" },
      });
      return request;
    }

    async function copyOf({ workspace }: Opened, files: Map<string, string>): Promise<string> {
      const { json } = await upload(await tarOf(files), { workspace, query: "?as=new" });
      return json.sessionId as string;
    }

    it.each([
      ["a new one", {}, "session/new"],
      [
        "a new one, though it could load and resume",
        { ...able, sessionCapabilities: { resume: {} } },
        "session/new",
      ],
      ["a fork, where the agent can", able, "session/fork"],
    ])("but in %s", async (_, capabilities, method) => {
      const opened = await openSession(capabilities);
      const { workspace, client, agent, sessionId } = opened;
      const copy = await copyOf(opened, await archive(workspace, sessionId));
      expect(await opening(opened, copy)).toMatchObject({ method });
      // The original is where it was.
      client.call("session/prompt", prompt(sessionId, "in the original"));
      expect(await agent.line()).toMatchObject({ params: { sessionId: "agent-session" } });
    });

    it("but in a new one when the original has gone on since", async () => {
      const opened = await openSession(able);
      const { workspace, agent, sessionId } = opened;
      const files = await archive(workspace, sessionId);
      agent.update("more");
      await agent.durable();
      expect(await opening(opened, await copyOf(opened, files))).toMatchObject({ method: "session/new" });
    });

    it("nor does a copy that has moved before it ran", async () => {
      const opened = await openSession(able);
      const { workspace, sessionId } = opened;
      const copy = await copyOf(opened, await archive(workspace, sessionId));
      const files = await archive(workspace, copy);
      await deleteSession(copy);
      await upload(await tarOf(files), { workspace });
      expect(await opening(opened, copy)).toMatchObject({ method: "session/fork" });
    });
  });

  it("does not replace one that is here", async () => {
    const { workspace, sessionId } = await openSession();
    const files = await archive(workspace, sessionId);
    const { status, json } = await upload(await tarOf(files), { workspace });
    expect({ status, code: json.error?.code }).toEqual({ status: 409, code: "conflict" });
    expect((await archive(workspace, sessionId)).get("events/000000000001.ndjson")).toBe(
      files.get("events/000000000001.ndjson"),
    );
  });

  it("may have the id of another tenant's, as if that were not there", async () => {
    const { workspace, sessionId, client } = await openSession();
    const files = await archive(workspace, sessionId);
    const tenant = `t-${crypto.randomUUID()}`;
    expect(await upload(await tarOf(files), { workspace, tenant })).toMatchObject({
      status: 201,
      json: { sessionId },
    });
    const listed = async (of: string) => {
      const page = await get("/api/sessions", await token({ workspace, tenant: of }));
      return ((await page.json()) as { sessions: Json[] }).sessions.map((one) => one.sessionId);
    };
    expect(await listed(tenant)).toEqual([sessionId]);
    // What one of them does with its own leaves the other's alone.
    await client.request("session/delete", { sessionId });
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(404);
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace, tenant }))).status).toBe(200);
    expect(await listed(tenant)).toEqual([sessionId]);
  });

  it("needs a workspace its caller may use, and the right to prompt", async () => {
    const { workspace, sessionId } = await openSession();
    const tar = await tarOf(await archive(workspace, sessionId));
    expect((await upload(tar, { workspace, query: "?as=new&workspace=elsewhere" })).status).toBe(404);
    const reader = await token({ workspace, scopes: ["session:read"] });
    const response = await exports.default.fetch("https://edge.test/api/sessions/import?as=new", {
      method: "POST",
      headers: { Authorization: `Bearer ${reader}` },
      body: tar,
    });
    expect(response.status).toBe(403);
  });
});

describe("a damaged archive is refused where it is wrong, and leaves nothing behind", () => {
  const FIRST = "events/000000000001.ndjson";
  const SECOND = "events/000000000002.ndjson";
  const lines = (id: string, ...seqs: number[]) => seqs.map((seq) => `${foreign(id, seq)}\n`).join("");

  type Case = [string, (id: string) => [string, string][], Json];
  const cases: Case[] = [
    [
      "a line that is not JSON",
      (id) => [[FIRST, `${lines(id, 1)}{"oops\n${lines(id, 3)}`]],
      { file: FIRST, line: 2 },
    ],
    ["a line cut short", (id) => [[FIRST, lines(id, 1, 2).slice(0, -20)]], { file: FIRST, line: 2 }],
    ["an empty line", (id) => [[FIRST, `${lines(id, 1)}\n${lines(id, 2)}`]], { file: FIRST, line: 2 }],
    [
      "another schema",
      (id) => [[FIRST, lines(id, 1) + foreign(id, 2, { schema: "acpx.event.v9" })]],
      { file: FIRST, line: 2, message: 'schema must be "acpx.event.v1"' },
    ],
    [
      "a gap",
      (id) => [
        [FIRST, lines(id, 1, 2)],
        [SECOND, lines(id, 5)],
      ],
      { file: SECOND, line: 1, message: "seq 5 follows 2: 2 events are missing here" },
    ],
    ["a repeated number", (id) => [[FIRST, lines(id, 1, 2, 2)]], { file: FIRST, line: 3 }],
    ["a beginning that is missing", (id) => [[SECOND, lines(id, 3, 4)]], { file: SECOND, line: 1 }],
    [
      "an end that is missing",
      (id) => [
        [FIRST, lines(id, 1, 2)],
        ["session.json", JSON.stringify({ acpxRecordId: id, log: { lastSeq: 3 } })],
      ],
      { file: "session.json", message: "the archive says it has 3 events, but the last one is 2" },
    ],
    [
      "an event of another session",
      (id) => [[FIRST, lines(id, 1) + foreign(crypto.randomUUID(), 2)]],
      { file: FIRST, line: 2 },
    ],
    [
      "a session.json of another session",
      (id) => [
        [FIRST, lines(id, 1)],
        ["session.json", `{"acpxRecordId":"other"}`],
      ],
      { file: "session.json", line: 1 },
    ],
    [
      "a session.json that is not JSON",
      (id) => [
        [FIRST, lines(id, 1)],
        ["session.json", "{"],
      ],
      { file: "session.json", line: 1 },
    ],
    [
      "a payload that is no object",
      (id) => [[FIRST, lines(id, 1) + foreign(id, 2, { payload: [] })]],
      { file: FIRST, line: 2 },
    ],
    ["no events at all", () => [["session.json", "{}"]], { file: null }],
    ["an empty log", () => [[FIRST, ""]], { file: null }],
  ];

  it.each(cases)("%s", async (_, files, where) => {
    const workspace = `w-${crypto.randomUUID()}`;
    const id = crypto.randomUUID();
    const { status, json } = await upload(await tarOf(files(id)), { workspace });
    expect(status).toBe(400);
    expect(json.error).toMatchObject({ code: "bad_archive", ...where });
    expect(await emptyState(id)).toEqual([]);
    // And a good one is welcome afterwards.
    expect((await upload(await tarOf([[FIRST, lines(id, 1)]]), { workspace })).status).toBe(201);
  });

  it("text that is not UTF-8", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const id = crypto.randomUUID();
    const body = new TextEncoder().encode(lines(id, 1, 2));
    body[body.length - 5] = 0xff;
    const tar = await packTar([{ header: { name: FIRST, size: body.length, type: "file" }, body }]);
    const { json } = await upload(tar, { workspace });
    expect(json.error).toMatchObject({ file: FIRST, line: 2, message: "not valid UTF-8" });
    expect(await emptyState(id)).toEqual([]);
  });

  it.each([
    ["in a file", 700],
    ["between files", 1024 + 512],
    ["before its end mark", -1024],
  ])("a tar cut off %s", async (_, at) => {
    const workspace = `w-${crypto.randomUUID()}`;
    const id = crypto.randomUUID();
    const tar = await tarOf([
      [FIRST, lines(id, 1, 2, 3)],
      ["session.json", "{}"],
    ]);
    const { status, json } = await upload(tar.slice(0, at), { workspace });
    expect(status).toBe(400);
    expect(json.error).toMatchObject({ code: "bad_archive" });
    expect(json.error?.message).toMatch(/tar/);
    expect(await emptyState(id)).toEqual([]);
  });

  it.each([
    ["text", "hello, this is not a tar"],
    ["random bytes", crypto.getRandomValues(new Uint8Array(5000))],
    ["nothing", new Uint8Array(0)],
  ])("%s instead of a tar", async (_, body) => {
    const { status, json } = await upload(body, { workspace: `w-${crypto.randomUUID()}` });
    expect(status).toBe(400);
    expect(json.error).toBeDefined();
  });

  it("also when the object died in the middle of it", async () => {
    const id = crypto.randomUUID();
    const stub = sessionStub(id);
    await runInDurableObject(stub, (_, state) => void state.storage.sql.exec(LOG_SCHEMA));
    await evictDurableObject(stub);
    expect(await emptyState(id)).toEqual([]);
  });

  it("also when whoever sent it is gone", async () => {
    const id = crypto.randomUUID();
    const caller: Caller = {
      tenant: "acme",
      subject: "someone",
      workspaces: ["*"],
      scopes: ["session:prompt"],
      expires: 0,
    };
    const order = { caller, workspace: "w", agent: null, defaultAgent: "", cwd: null };
    const stub = sessionStub(id);
    const target = await stub.import({ ...order, sessionId: id, recordId: id, format: "acpx" });
    expect(await target?.write(FIRST, new TextEncoder().encode(lines(id, 1, 2)))).toBeNull();
    expect(await stub.describe(caller)).toBeNull();
    expect(await stub.import({ ...order, sessionId: id, recordId: id, format: "acpx" })).toBeNull();
    target?.[Symbol.dispose]();
    await vi.waitFor(async () => expect(await emptyState(id)).toEqual([]));
  });

  it("and a log larger than one call is imported whole or not at all", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const id = crypto.randomUUID();
    const many = Array.from({ length: 12_000 }, (_, i) => `${foreign(id, i + 1)}\n`);
    many[11_500] = "{}\n";
    const bad = await upload(await tarOf([[FIRST, many.join("")]]), { workspace });
    expect(bad.json.error).toMatchObject({ file: FIRST, line: 11_501 });
    expect(await emptyState(id)).toEqual([]);
    many[11_500] = `${foreign(id, 11_501)}\n`;
    expect((await upload(await tarOf([[FIRST, many.join("")]]), { workspace })).status).toBe(201);
    const files = await archive(workspace, id);
    // Cut where we cut: after 10,000 events, and before what happened here.
    expect(
      segments(files)
        .map(([, text]) => text.split("\n").length - 1)
        .slice(0, 2),
    ).toEqual([10_000, 2_000]);
    expect((files.get(FIRST) as string) + files.get(SECOND)).toBe(many.join(""));
  });
});

describe("the older record in one file", () => {
  const RECORD = {
    id: "0b9f2f5e-5a54-4a53-9f6d-0d6c7b5a1111",
    sessionId: "agent-session-9",
    agentCommand: "npx @zed-industries/codex-acp",
    cwd: "/repo",
    createdAt: "2026-02-01T08:00:00.000Z",
    lastUsedAt: "2026-02-01T09:00:00.000Z",
    closed: false,
    turnHistory: [
      { role: "user", timestamp: "2026-02-01T08:01:00.000Z", textPreview: "fix the tests" },
      { role: "assistant", timestamp: "2026-02-01T08:05:00.000Z", textPreview: "Done." },
      { role: "user", timestamp: "2026-02-01T08:06:00.000Z", textPreview: "thanks" },
    ],
  };

  it("becomes a log of events marked as synthetic", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const { status, json } = await upload(JSON.stringify(RECORD), { workspace, type: "application/json" });
    expect({ status, json }).toMatchObject({ status: 201, json: { sessionId: RECORD.id } });
    const log = await events(workspace, RECORD.id);
    const synthetic = log.filter((event) => (event.payload as Json).synthetic === true);
    expect(synthetic.map((event) => [event.kind, event.at, (event.payload as Json).textPreview])).toEqual([
      ["session.created", RECORD.createdAt, undefined],
      ["turn.started", "2026-02-01T08:01:00.000Z", "fix the tests"],
      ["turn.completed", "2026-02-01T08:05:00.000Z", "Done."],
      ["turn.started", "2026-02-01T08:06:00.000Z", "thanks"],
      ["turn.completed", "2026-02-01T08:06:00.000Z", undefined],
      ["queue.owner.stopped", RECORD.lastUsedAt, undefined],
    ]);
    expect(log.map((event) => event.seq)).toEqual(log.map((_, i) => i + 1));
    const view = await get(`/api/sessions/${RECORD.id}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({
      agentStatus: "gone",
      identity: { acpSessionId: "agent-session-9" },
      lifecycle: { createdAt: RECORD.createdAt },
    });
    const markdown = await (await download(workspace, RECORD.id, "markdown")).text();
    expect(markdown).toContain("fix the tests *(preview)*");
  });

  it("goes on with an agent of the workspace", async () => {
    const workspace = `w-${crypto.randomUUID()}`;
    const host = await Host.join(workspace);
    const { json } = await upload(JSON.stringify(RECORD), {
      workspace,
      type: "application/json",
      query: "?as=new",
    });
    const sessionId = json.sessionId as string;
    const client = await Client.open(workspace);
    const id = client.call("session/prompt", prompt(sessionId, "more"));
    const agent = await host.agent();
    expect(await agent.openSession()).toMatchObject({ method: "session/new", params: { cwd: "/workspace" } });
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  it.each([
    ["not JSON", "{", /not valid JSON/],
    ["no record", "{}", /not a session record/],
    ["a projection", '{"schema":"acpx.session.v1"}', /imported from its events/],
    ["no UUID", JSON.stringify({ ...RECORD, id: "ses_1" }), /as=new/],
  ])("is refused when it is %s", async (_, body, message) => {
    const { status, json } = await upload(body, {
      workspace: `w-${crypto.randomUUID()}`,
      type: "application/json",
    });
    expect(status).toBe(400);
    expect(json.error?.message).toMatch(message);
  });
});

describe("other formats", () => {
  it("NDJSON is the whole log", async () => {
    const { workspace, sessionId } = await eventful();
    const response = await download(workspace, sessionId, "ndjson");
    expect(response.headers.get("Content-Type")).toBe("application/x-ndjson; charset=utf-8");
    const text = new TextDecoder().decode(await response.arrayBuffer());
    expect(text === (await eventsText(workspace, sessionId))).toBe(true);
  });

  it("an unknown one is refused, an unknown session is not found", async () => {
    const { workspace, sessionId } = await openSession();
    const bearer = await token({ workspace });
    expect((await get(`/api/sessions/${sessionId}/export?format=pdf`, bearer)).status).toBe(400);
    expect((await get(`/api/sessions/${crypto.randomUUID()}/export`, bearer)).status).toBe(404);
  });
});

// ---- live ---------------------------------------------------------------------------------------------

type SseEvent = { id: number; data: string };

/** Reads an event stream at the pace it is asked to. */
class Watcher {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  readonly #events: SseEvent[] = [];
  #text = "";
  #end = "";

  constructor(response: Response) {
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader();
  }

  static async open(workspace: string, sessionId: string, query = "", headers: Record<string, string> = {}) {
    const response = await exports.default.fetch(
      `https://edge.test/api/sessions/${sessionId}/events${query}`,
      {
        headers: {
          Authorization: `Bearer ${await token({ workspace })}`,
          Accept: "text/event-stream",
          ...headers,
        },
      },
    );
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toBe("text/event-stream");
    return new Watcher(response);
  }

  async next(): Promise<SseEvent> {
    for (;;) {
      const event = this.#events.shift();
      if (event) return event;
      const { done, value } = await this.#reader.read();
      if (done) throw new Error("The stream has ended");
      const piece = this.#decoder.decode(value, { stream: true });
      this.#text += piece;
      // Only what is new can end a block: the largest arrive in thousands of pieces.
      if (!(this.#end + piece).includes("\n\n")) {
        this.#end = piece.slice(-1);
        continue;
      }
      const blocks = this.#text.split("\n\n");
      this.#text = blocks.pop() as string;
      this.#end = this.#text.slice(-1);
      for (const block of blocks) {
        const match = /^id: (\d+)\ndata: (.*)$/s.exec(block);
        if (match) this.#events.push({ id: Number(match[1]), data: match[2] as string });
      }
    }
  }

  async take(count: number): Promise<SseEvent[]> {
    const taken: SseEvent[] = [];
    while (taken.length < count) taken.push(await this.next());
    return taken;
  }

  async ended(): Promise<boolean> {
    return (await this.#reader.read()).done;
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }
}

/** What the object remembers of its watchers. */
const attachments = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, state) =>
    state
      .getWebSockets("watch")
      .map((ws) => ws.deserializeAttachment() as { watch: number; waiting: boolean }),
  );

describe("an event stream", () => {
  it("is the log, then what is added to it", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const log = (await eventsText(workspace, sessionId)).trimEnd().split("\n");
    const watcher = await Watcher.open(workspace, sessionId);
    const past = await watcher.take(log.length);
    expect(past.map((event) => event.data)).toEqual(log);
    expect(past.map((event) => event.id)).toEqual(log.map((_, i) => i + 1));
    const coming = watcher.next();
    agent.update("live");
    const event = await coming;
    expect(event.id).toBe(log.length + 1);
    expect(JSON.parse(event.data)).toMatchObject({ seq: event.id, kind: "acp.frame" });
    expect(event.data).toContain('"text":"live"');
    await watcher.close();
  });

  it("goes on exactly after the last event its reader had", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const first = await Watcher.open(workspace, sessionId, "?after=3");
    const seen = await first.take(2);
    expect(seen.map((event) => event.id)).toEqual([4, 5]);
    await first.close();
    agent.items(...Array.from({ length: 50 }, (_, i) => updateText(String(i))));
    await agent.durable();
    const second = await Watcher.open(workspace, sessionId, "?after=3", { "Last-Event-ID": "5" });
    const total = (await events(workspace, sessionId)).length;
    expect((await second.take(total - 5)).map((event) => event.id)).toEqual(
      Array.from({ length: total - 5 }, (_, i) => i + 6),
    );
    await second.close();
  });

  it("survives the object's sleep while its reader waits", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const coming = watcher.next();
    await vi.waitFor(async () =>
      expect(await attachments(sessionId)).toEqual([{ watch: length, waiting: true }]),
    );
    for (let i = 0; i < 2; i += 1) {
      await get(`/api/sessions/${sessionId}`, await token({ workspace }));
      await evictDurableObject(sessionStub(sessionId));
    }
    agent.update("awake");
    expect(await coming).toMatchObject({ id: length + 1, data: expect.stringContaining("awake") as string });
    await watcher.close();
  });

  it("sends a slow reader nothing it did not ask for", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const first = watcher.next();
    const chunk = "s".repeat(100_000);
    for (let i = 0; i < 60; i += 1) agent.update(`${i} ${chunk}`);
    await agent.durable();
    await first;
    // One page of about a mebibyte at most; the rest stays in the log.
    const [attachment] = await attachments(sessionId);
    expect(attachment?.watch).toBeLessThanOrEqual(length + 12);
    const rest = await watcher.take(59);
    expect(rest.map((event) => event.id)).toEqual(Array.from({ length: 59 }, (_, i) => length + 2 + i));
    await watcher.close();
  });

  it("carries the largest frames", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const frames = [big(5_000_000, "€"), big(12_000_000)];
    agent.items(...frames);
    for (const [i, frame] of frames.entries()) {
      const event = await watcher.next();
      expect(event.id).toBe(length + 1 + i);
      expect(event.data.includes(`"message":${frame}}`)).toBe(true);
    }
    await watcher.close();
  });

  it("does not disturb the host's link, nor the other way round", async () => {
    const { workspace, sessionId, agent, client } = await openSession();
    const watcher = await Watcher.open(workspace, sessionId);
    await watcher.next();
    await agent.reconnect();
    const id = client.call("session/prompt", prompt(sessionId));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(id);
    const total = (await events(workspace, sessionId)).length;
    expect((await watcher.take(total - 1)).at(-1)?.id).toBe(total);
    await watcher.close();
  });

  it("ends when the session is deleted", async () => {
    const { workspace, sessionId } = await openSession();
    const { length } = await events(workspace, sessionId);
    const watcher = await Watcher.open(workspace, sessionId, `?after=${length}`);
    const ended = watcher.ended();
    await deleteSession(sessionId);
    expect(await ended).toBe(true);
  });

  it("is refused for what is not there and to who may not see it", async () => {
    const { workspace, sessionId } = await openSession();
    const open = async (id: string, bearer: string, headers = {}) =>
      (
        await exports.default.fetch(`https://edge.test/api/sessions/${id}/events`, {
          headers: { Authorization: `Bearer ${bearer}`, Accept: "text/event-stream", ...headers },
        })
      ).status;
    const mine = await token({ workspace });
    expect(await open(crypto.randomUUID(), mine)).toBe(404);
    expect(await open("nonsense", mine)).toBe(404);
    expect(await open(sessionId, await token({ workspace, tenant: "evil" }))).toBe(404);
    expect(await open(sessionId, await token({ workspace, scopes: [] }))).toBe(403);
    expect(await open(sessionId, mine, { "Last-Event-ID": "x" })).toBe(400);
  });
});
