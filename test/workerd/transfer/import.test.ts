import { env, exports } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { events, get, type Opened, openSession, prompt, workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { ALL_OF_A_CLIENT, CONTROLLER, token } from "../tokens.ts";
import { archive, deleteSession, download, tarOf, upload } from "./fixtures.ts";

describe("an imported session", () => {
  test("belongs to its importer and to nobody else", async () => {
    const { workspace, sessionId } = await openSession();
    const files = await archive(workspace, sessionId);
    await deleteSession(sessionId);
    const other = workspaceName();
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

  test("has no running turn, and runs again with the next prompt", async () => {
    const { workspace, sessionId, agent, client, host } = await openSession();
    client.call("session/prompt", prompt(sessionId, "first"));
    await agent.line();
    client.call("session/prompt", prompt(sessionId, "second"));
    agent.items(
      '{"jsonrpc":"2.0","id":"p-1","method":"session/request_permission","params":{"sessionId":"agent-session","toolCall":{"toolCallId":"t"},"options":[]}}',
    );
    await agent.durable();
    // The agent's items and the client's prompts reach the session on different ways.
    await expect.poll(async () => JSON.stringify(await events(workspace, sessionId))).toContain("second");
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

  test("gets a new id in every envelope with as=new, and the original stays", async () => {
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

  describe("imported with as=new", () => {
    const able = { loadSession: true, sessionCapabilities: { resume: {}, fork: {} } };

    /** The request that opens the agent session of a copy at its first prompt. */
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

    test.each([
      ["a new agent session", {}, "session/new"],
      [
        "a new agent session, though the agent can load and resume,",
        { ...able, sessionCapabilities: { resume: {} } },
        "session/new",
      ],
      ["a fork, if the agent can,", able, "session/fork"],
    ])("opens %s and never continues the original's agent session", async (_, capabilities, method) => {
      const opened = await openSession(capabilities);
      const { workspace, client, agent, sessionId } = opened;
      const copy = await copyOf(opened, await archive(workspace, sessionId));
      expect(await opening(opened, copy)).toMatchObject({ method });
      // The original is unchanged.
      client.call("session/prompt", prompt(sessionId, "in the original"));
      expect(await agent.line()).toMatchObject({ params: { sessionId: "agent-session" } });
    });

    test("opens a new agent session when the original has gone on since", async () => {
      const opened = await openSession(able);
      const { workspace, agent, sessionId } = opened;
      const files = await archive(workspace, sessionId);
      agent.update("more");
      await agent.durable();
      expect(await opening(opened, await copyOf(opened, files))).toMatchObject({ method: "session/new" });
    });

    test("opens a fork even when the copy was moved before it ran", async () => {
      const opened = await openSession(able);
      const { workspace, sessionId } = opened;
      const copy = await copyOf(opened, await archive(workspace, sessionId));
      const files = await archive(workspace, copy);
      await deleteSession(copy);
      await upload(await tarOf(files), { workspace, scopes: ALL_OF_A_CLIENT });
      expect(await opening(opened, copy)).toMatchObject({ method: "session/fork" });
    });
  });

  test.each([
    ["an administrator of the workspace: the agent continues", ALL_OF_A_CLIENT, "", "session/resume"],
    ["an administrator of the tenant", [...CONTROLLER, "tenant:admin"], "", "session/resume"],
    ["anybody else: the agent begins anew", CONTROLLER, "", "session/new"],
    ["anybody else, as a copy: the agent begins anew", CONTROLLER, "?as=new", "session/new"],
  ])("names an agent session to continue for %s", async (_, scopes, query, method) => {
    const opened = await openSession({ sessionCapabilities: { resume: {}, fork: {} } });
    const { workspace, host, client, sessionId } = opened;
    const files = await archive(workspace, sessionId);
    await deleteSession(sessionId);
    // The log names an agent session that the host has for somebody else.
    for (const [name, text] of files) files.set(name, text.replaceAll("agent-session", "of-somebody-else"));
    const { json } = await upload(await tarOf(files), { workspace, scopes, query });
    await client.request("session/load", { sessionId: json.sessionId, cwd: "/", mcpServers: [] });
    client.call("session/prompt", prompt(json.sessionId as string, "go on"));
    const agent = await host.agent();
    expect(await agent.line()).toMatchObject({ method });
  });

  test("is refused under the id of a session in another workspace as that session is to every request", async () => {
    const { workspace, sessionId } = await openSession();
    const files = await archive(workspace, sessionId);
    const elsewhere = workspaceName();
    const { status, json } = await upload(await tarOf(files), { workspace: elsewhere });
    const unknown = await get(`/api/sessions/${sessionId}`, await token({ workspace: elsewhere }));
    expect({ status, json }).toEqual({ status: unknown.status, json: await unknown.json() });
  });

  test("does not replace a session that exists", async () => {
    const { workspace, sessionId } = await openSession();
    const files = await archive(workspace, sessionId);
    const { status, json } = await upload(await tarOf(files), { workspace });
    expect({ status, code: json.error?.code }).toEqual({ status: 409, code: "conflict" });
    expect((await archive(workspace, sessionId)).get("events/000000000001.ndjson")).toBe(
      files.get("events/000000000001.ndjson"),
    );
  });

  test("may have the id of another tenant's session, which stays invisible", async () => {
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
    // Deleting one tenant's session leaves the other tenant's session.
    await client.request("session/delete", { sessionId });
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace }))).status).toBe(404);
    expect((await get(`/api/sessions/${sessionId}`, await token({ workspace, tenant }))).status).toBe(200);
    expect(await listed(tenant)).toEqual([sessionId]);
  });

  test("needs a workspace the caller may use and the right to prompt", async () => {
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

describe("an older record in one file", () => {
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

  test("becomes a log of events marked as synthetic", async () => {
    const workspace = workspaceName();
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

  test("continues with an agent of the workspace", async () => {
    const workspace = workspaceName();
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

  test.each([
    ["not JSON", "{", /not valid JSON/],
    ["no record", "{}", /not a session record/],
    ["a projection", '{"schema":"acpx.session.v1"}', /imported from its events/],
    ["no UUID", JSON.stringify({ ...RECORD, id: "ses_1" }), /as=new/],
  ])("is refused when it is %s", async (_, body, message) => {
    const { status, json } = await upload(body, {
      workspace: workspaceName(),
      type: "application/json",
    });
    expect(status).toBe(400);
    expect(json.error?.message).toMatch(message);
  });
});
