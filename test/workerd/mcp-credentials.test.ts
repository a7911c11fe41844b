import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from "vitest";
import { eventsText, get, prompt, sessionStub, workspaceName } from "./fixtures.ts";
import type { Agent } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

/** The credentials of MCP servers: the agent gets them unchanged, and nobody can read them. */

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
