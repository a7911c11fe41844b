import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from "vitest";
import { eventsText, get, prompt, sessionStub, texts, workspaceName } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import type { Agent } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

/** Credentials that clients give the agent: the agent gets them unchanged, and nobody can read them. */

const ENV = 'sk-env/“quoted” \\"\\n\\u00e9 12345678901234567890';
const HEADER = "Bearer eyJ-header-value";
const MARK = "mcp-secret-mark";

const SERVERS = [
  {
    name: "files",
    command: "mcp-files",
    args: ["--root", "."],
    env: [{ name: "FILES_TOKEN", value: `${MARK}-env ${ENV}` }],
  },
  {
    type: "http",
    name: "web",
    url: "https://mcp.test/",
    headers: [{ name: "Authorization", value: `${MARK}-header ${HEADER}` }],
  },
];
const opening = (more: object = {}) => ({ cwd: "/somewhere", mcpServers: SERVERS, ...more });

let logs: MockInstance[];
beforeEach(() => {
  logs = (["log", "info", "warn", "error", "debug"] as const).map((level) => vi.spyOn(console, level));
});
afterEach(() => {
  for (const log of logs) {
    expect(JSON.stringify(log.mock.calls)).not.toContain(MARK);
    log.mockRestore();
  }
});

type Opened = { workspace: string; host: Host; client: Client; agent: Agent; sessionId: string };

/** A session whose agent has got its MCP servers. */
async function open(capabilities: object = {}): Promise<Opened> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  host.capabilities = capabilities;
  const client = await Client.open(workspace);
  const asked = client.request("session/new", opening());
  const agent = await host.agent();
  const request = await agent.line();
  expect(request.params).toEqual(opening({ cwd: "/workspace" }));
  agent.answer(request, { sessionId: "agent-session" });
  const { sessionId } = (await asked).response.result as { sessionId: string };
  return { workspace, host, client, agent, sessionId };
}

/** Ends the process and prompts again; returns the first request to the next process. */
async function restarted({ client, host, agent, sessionId }: Opened, text: string) {
  agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
  await agent.durable();
  client.call("session/prompt", prompt(sessionId, text));
  const next = await host.agent();
  return { next, request: await next.line() };
}

/** Every way to read a session, as one text. */
async function everything(workspace: string, sessionId: string): Promise<string> {
  const bearer = await token({ workspace, scopes: ["session:read", "session:prompt", "workspace:admin"] });
  const paths = [
    `/api/sessions/${sessionId}`,
    "/api/sessions",
    "/api/permissions",
    `/api/workspaces/${workspace}`,
    "/api/agents",
    ...["acpx", "markdown", "ndjson"].map((format) => `/api/sessions/${sessionId}/export?format=${format}`),
  ];
  const texts = await Promise.all(
    paths.map(async (path) => {
      const response = await get(path, bearer);
      expect(response.status).toBe(200);
      return new TextDecoder().decode(await response.arrayBuffer());
    }),
  );
  const log = await eventsText(workspace, sessionId);
  const last = log.trimEnd().split("\n").length;
  const second = await Client.open(workspace, "&role=observer");
  const loaded = await second.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
  const after = { sessionId, cwd: "/", mcpServers: [], _meta: { "acp-edge/after": 0 } };
  const third = await (await Client.open(workspace)).request("session/load", after);
  const live = await liveEvents(bearer, sessionId, last);
  const index = await env.INDEX.prepare("SELECT * FROM sessions").all();
  return JSON.stringify([...texts, log, loaded, third, live, index.results]);
}

/** The event stream up to the given event. */
async function liveEvents(bearer: string, sessionId: string, last: number): Promise<string> {
  const response = await exports.default.fetch(`https://edge.test/api/sessions/${sessionId}/events`, {
    headers: { Authorization: `Bearer ${bearer}`, Accept: "text/event-stream" },
  });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (!text.includes(`id: ${last}\n`)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel();
  return text;
}

describe("the credentials of MCP servers", () => {
  test("reach the agent unchanged, and no reader", async () => {
    const { workspace, sessionId, client, agent } = await open();
    const asked = client.request("session/prompt", prompt(sessionId, "hello"));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await asked;
    const seen = await everything(workspace, sessionId);
    expect(seen).toContain("FILES_TOKEN");
    expect(seen).toContain("[secret:");
    expect(seen).not.toContain(MARK);
  });

  test("[I2] reach the agent byte for byte", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const params = `{"cwd" : "/workspace", "mcpServers":[ {"env": [{"value":"${ENV}", "name":"A"}], "big":12345678901234567890 } ]}`;
    client.send(`{"jsonrpc":"2.0","id":"n","method":"session/new","params":${params}}`);
    const agent = await host.agent();
    const raw = await agent.rawLine();
    expect(raw).toContain(`"params":${params}`);
  });

  test.each([
    ["session/resume", { sessionCapabilities: { resume: {} } }],
    ["session/load", { loadSession: true }],
    ["session/new", {}],
  ])("reach the next process, opened with %s by an evicted object", async (method, capabilities) => {
    const opened = await open(capabilities);
    await evictDurableObject(sessionStub(opened.sessionId));
    const { request } = await restarted(opened, "again");
    expect(request.method).toBe(method);
    expect(request.params).toMatchObject(opening({ cwd: "/workspace" }));
    expect(await everything(opened.workspace, opened.sessionId)).not.toContain(MARK);
  });

  test("are not logged in a load, a resume or any other request", async () => {
    const { workspace, client, agent, sessionId } = await open();
    await client.request("session/load", opening({ sessionId }));
    await client.request("session/resume", opening({ sessionId }));
    client.call("_vendor/servers", opening({ sessionId }));
    expect((await agent.line()).params).toEqual(opening({ sessionId: "agent-session" }));
    expect(await everything(workspace, sessionId)).not.toContain(MARK);
    // Credentials no agent will see are not stored at all.
    const kept = await runInDurableObject(sessionStub(sessionId), (_, { storage }) =>
      storage.sql.exec("SELECT * FROM concealed_value").toArray(),
    );
    expect(kept).toHaveLength(4);
  });

  test("of a client that loads the session reach the next process in place of the first ones", async () => {
    const opened = await open({ sessionCapabilities: { resume: {} } });
    const { workspace, sessionId } = opened;
    const editor = await Client.open(workspace);
    const kept = () =>
      runInDurableObject(sessionStub(sessionId), (_, { storage }) =>
        storage.sql.exec("SELECT * FROM concealed_value").toArray(),
      );
    // Each launch of an editor has another token; only the last one is kept beside the first servers.
    for (const launch of ["one", "two"]) {
      const headers = [{ name: "Authorization", value: `${MARK}-${launch}` }];
      const mcpServers = [{ type: "http", name: "web", url: "https://mcp.test/", headers }];
      const { response } = await editor.request("session/load", { sessionId, cwd: "/", mcpServers });
      expect(response.result).toMatchObject({
        _meta: { "acp-edge/opening": { mcpServers: "next process" } },
      });
    }
    expect(await kept()).toHaveLength(3);
    await evictDurableObject(sessionStub(sessionId));
    const { request } = await restarted(opened, "again");
    expect(request).toMatchObject({
      method: "session/resume",
      params: { cwd: "/workspace", mcpServers: [{ headers: [{ value: `${MARK}-two` }] }] },
    });
    expect(await everything(workspace, sessionId)).not.toContain(MARK);
  });

  test("belong to a fork that named them", async () => {
    const { workspace, client, host, sessionId } = await open();
    const forked = await client.request("session/fork", opening({ sessionId }));
    const copy = (forked.response.result as { sessionId: string }).sessionId;
    client.call("session/prompt", prompt(copy, "go"));
    const agent = await host.agent();
    expect((await agent.line()).params).toEqual(opening({ cwd: "/workspace" }));
    expect(await everything(workspace, copy)).not.toContain(MARK);
  });

  test("cannot be read by quoting their references", async () => {
    const { workspace, client, agent, sessionId } = await open();
    const reference = /\[secret:[\w-]+\]/.exec(await eventsText(workspace, sessionId))?.[0] as string;
    client.call("session/prompt", prompt(sessionId, reference));
    expect((await agent.line()).params).toMatchObject({ prompt: [{ text: reference }] });
    const servers = [{ name: reference, args: [reference], env: [{ name: reference, value: reference }] }];
    client.call("_vendor/servers", { sessionId, mcpServers: servers });
    expect((await agent.line()).params).toMatchObject({ mcpServers: servers });
  });

  test("stay behind in an export, and the imported session says so", async () => {
    const { workspace, sessionId } = await open();
    const bearer = await token({ workspace });
    const exported = await get(`/api/sessions/${sessionId}/export?format=acpx`, bearer);
    const elsewhere = workspaceName();
    const host = await Host.join(elsewhere);
    const response = await exports.default.fetch("https://edge.test/api/sessions/import?as=new", {
      method: "POST",
      headers: {
        Authorization: `Bearer ${await token({ workspace: elsewhere })}`,
        "Content-Type": "application/x-tar",
      },
      body: await exported.arrayBuffer(),
    });
    const { sessionId: copy } = (await response.json()) as { sessionId: string };
    const client = await Client.open(elsewhere);
    const { before } = await client.request("session/load", { sessionId: copy, cwd: "/", mcpServers: [] });
    expect(JSON.stringify(before)).toContain("lacks 2 secret values");
    client.call("session/prompt", prompt(copy, "go"));
    const agent = await host.agent();
    expect((await agent.line()).params).toMatchObject({
      mcpServers: [
        { env: [{ name: "FILES_TOKEN", value: "" }] },
        { headers: [{ name: "Authorization", value: "" }] },
      ],
    });
  });

  test("are limited in size", async () => {
    const { client } = await open();
    const mcpServers = [
      { name: "m", command: "c", args: [], env: [{ name: "A", value: "x".repeat(200_000) }] },
    ];
    const { response } = await client.request("session/new", { cwd: "/", mcpServers });
    expect(response.error).toMatchObject({ code: -32602, message: expect.stringContaining("131072") });
  });
});

describe("other credentials", () => {
  const SECRET = `${MARK}-other`;
  const count = (sessionId: string) =>
    runInDurableObject(
      sessionStub(sessionId),
      (_, { storage }) =>
        storage.sql.exec<{ count: number }>("SELECT COUNT(*) AS count FROM concealed_value").one().count,
    );

  test("of a login reach the agents of all sessions, and no reader", async () => {
    const { workspace, client, agent, host, sessionId } = await open();
    const second = client.call("session/new", { cwd: "/", mcpServers: [] });
    const other = await host.agent();
    await other.openSession();
    await client.until(second);
    const login = { methodId: "key", apiKey: SECRET, _meta: { "api-key": SECRET, more: { deep: [SECRET] } } };
    const asked = client.call("authenticate", login);
    const lines = [agent, other].map(async (each) => ({ each, request: await each.line() }));
    const { each, request } = await Promise.race(lines);
    expect(request).toMatchObject({ method: "authenticate", params: login });
    each.answer(request, {});
    await client.until(asked);
    for (const { request: told } of await Promise.all(lines))
      expect(told).toMatchObject({ method: "authenticate", params: login });
    for (const id of [sessionId, other.sessionId]) {
      const seen = await everything(workspace, id);
      expect(seen).toContain("methodId");
      expect(seen).not.toContain(MARK);
    }
  });

  test("in answers to forms, in openings and in options reach the agent, and no reader", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const meta = { agent: { key: SECRET, list: [1, SECRET] } };
    const asked = client.request("session/new", { cwd: "/", mcpServers: [], _meta: meta });
    const agent = await host.agent();
    const request = await agent.line();
    expect(request.params).toMatchObject({ _meta: meta });
    agent.answer(request, { sessionId: "agent-session" });
    const { sessionId } = (await asked).response.result as { sessionId: string };

    const form = {
      sessionId: "agent-session",
      mode: "form",
      message: "Password?",
      requestedSchema: { type: "object", properties: {} },
    };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 77, method: "elicitation/create", params: form }));
    const question = await client.takeJson();
    const answer = { action: "accept", content: { password: SECRET, n: 5 }, _meta: { a: SECRET } };
    client.send(JSON.stringify({ jsonrpc: "2.0", id: question.id, result: answer }));
    expect(await agent.line()).toMatchObject({ id: 77, result: answer });
    // An answer that comes too late is in the log as well.
    client.send(JSON.stringify({ jsonrpc: "2.0", id: question.id, result: answer }));

    const option = { configId: "api_key", value: SECRET };
    client.call("session/set_config_option", { sessionId, ...option });
    expect((await agent.line()).params).toMatchObject(option);
    const seen = await everything(workspace, sessionId);
    expect(seen).toContain("elicitation/create");
    expect(seen).not.toContain(MARK);
  });

  test("are forgotten with the process, except those that the next process needs", async () => {
    const opened = await open();
    const { client, agent, sessionId } = opened;
    const kept = await count(sessionId);
    client.call("authenticate", { methodId: "key", _meta: { key: SECRET } });
    expect((await agent.line()).params).toMatchObject({ _meta: { key: SECRET } });
    expect(await count(sessionId)).toBe(kept + 1);
    const { request } = await restarted(opened, "again");
    expect(await count(sessionId)).toBe(kept);
    expect(request.params).toMatchObject({ mcpServers: SERVERS });
  });

  /** The agent asks with a form or otherwise; the client answers. Returns the line that the agent gets. */
  async function answerTo({ client, agent }: Opened, method: string, result: object) {
    const params = { sessionId: "agent-session", mode: "form", message: "?", requestedSchema: {} };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 77, method, params }));
    const { id } = await client.takeJson();
    client.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
    return agent.line();
  }

  test("in answers to forms are kept until the agent has the answer, so that any number may follow", async () => {
    setLimits({ credentialCount: 4 });
    const opened = await open();
    const { agent, sessionId, workspace } = opened;
    const kept = await count(sessionId);
    for (let i = 0; i < 3; i += 1) {
      const answer = { action: "accept", content: { password: `${SECRET} ${i}`, n: i } };
      expect(await answerTo(opened, "elicitation/create", answer)).toMatchObject({ id: 77, result: answer });
      expect(await count(sessionId)).toBe(kept + 2);
      agent.update("has it");
      await agent.durable();
      expect(await count(sessionId)).toBe(kept);
      expect(texts([await opened.client.takeJson()])).toEqual(["has it"]);
    }
    expect(await eventsText(workspace, sessionId)).not.toContain(MARK);
  });

  test("in answers to forms reach an agent whose host did not get them at first", async () => {
    const opened = await open();
    const { client, agent } = opened;
    const form = { sessionId: "agent-session", mode: "form", message: "?", requestedSchema: {} };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 77, method: "elicitation/create", params: form }));
    const { id } = await client.takeJson();
    const result = { action: "accept", content: { password: SECRET } };
    client.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
    await agent.arrived(1);
    agent.update("before it");
    await agent.durable();
    await agent.reconnect();
    expect(await agent.line()).toMatchObject({ id: 77, result });
  });

  test("in an answer to a form that cannot be kept become an error for the agent", async () => {
    setLimits({ credentialCount: 4 });
    const opened = await open();
    const { sessionId, workspace } = opened;
    const kept = await count(sessionId);
    const content = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`k${i}`, SECRET]));
    const line = await answerTo(opened, "elicitation/create", { action: "accept", content });
    expect(line).toMatchObject({ id: 77, error: { code: -32602, message: expect.stringContaining("4") } });
    expect(await count(sessionId)).toBe(kept);
    const log = await eventsText(workspace, sessionId);
    expect(log).not.toContain(MARK);
    expect(log).not.toContain('"method":""');
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ pendingRequests: [] });
  });

  test("are not suspected in answers to other requests, nor in options that are called alike", async () => {
    const opened = await open();
    const { client, agent, sessionId, workspace } = opened;
    const kept = await count(sessionId);
    const result = { content: [{ type: "text", text: "plain content" }], _meta: { more: "plain meta" } };
    expect(await answerTo(opened, "_mcp/message", result)).toMatchObject({ id: 77, result });
    // A form's answer has credentials whatever it looks like, also if it says too little to count.
    const params = { sessionId: "agent-session", mode: "form", message: "?", requestedSchema: {} };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 77, method: "elicitation/create", params }));
    const { id } = await client.takeJson();
    const accepted = { action: "accept", content: { a: SECRET } };
    for (const said of [{ content: SECRET }, { action: "_vendor", content: SECRET }, accepted])
      client.send(JSON.stringify({ jsonrpc: "2.0", id, result: said }));
    expect(await agent.line()).toMatchObject({ id: 77, result: accepted });
    for (const configId of ["max_thinking_tokens", "keybindings", "author"]) {
      client.call("session/set_config_option", { sessionId, configId, value: `plain ${configId}` });
      expect((await agent.line()).params).toMatchObject({ configId, value: `plain ${configId}` });
    }
    const log = await eventsText(workspace, sessionId);
    for (const shown of ["content", "meta", "max_thinking_tokens", "keybindings", "author"])
      expect(log).toContain(`plain ${shown}`);
    expect(log).not.toContain(MARK);
    expect(await count(sessionId)).toBe(kept + 1);
  });

  test("are limited in number, and a refused frame leaves none", async () => {
    const { client, sessionId } = await open();
    const kept = await count(sessionId);
    const many = Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`k${i}`, SECRET]));
    const { response } = await client.request("authenticate", { methodId: "key", _meta: many });
    expect(response.error).toMatchObject({ code: -32602, message: expect.stringContaining("1000") });
    expect(await count(sessionId)).toBe(kept);
  });
});
