import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import * as seed000 from "../fixtures/dialects/container-data-model.ts";
import * as seed003 from "../fixtures/dialects/local-mcp-servers.ts";
import * as seed002 from "../fixtures/dialects/web-gateway.ts";
import { type Agent, Client, events, HELLO, Host, token } from "./harness.ts";
import { type EventReader, HttpPeer } from "./http-peer.ts";

type Json = Record<string, unknown>;

const json = (text: string) => JSON.parse(text) as Json;
const workspaceName = () => `w-${crypto.randomUUID()}`;

/** A printed message, for a session of this test. */
const forSession = (printed: string, sessionId: string) =>
  printed.replaceAll("session-abc123", sessionId).replaceAll("session-uuid", sessionId);

/** A host with agents of these names, the first of them the default, each with this answer to initialize. */
async function hostOf(
  workspace: string,
  names: string[],
  initialize: Json = { agentCapabilities: {} },
): Promise<Host> {
  const host = await Host.join(workspace, { initialize: false });
  const agents = names.map((id, i) => ({ id, name: id, default: i === 0 }));
  const { instance } = host;
  host.send(JSON.stringify({ ...HELLO, instance, agents }));
  expect((await host.takeJson()).t).toBe("welcome");
  for (const id of names)
    host.send(JSON.stringify({ t: "agent", id, initialize: { protocolVersion: 1, ...initialize } }));
  return host;
}

async function agentSocket(workspace: string): Promise<Client> {
  const url = `https://edge.test/agent/ws?token=${await token({ workspace })}`;
  const response = await exports.default.fetch(url, { headers: { Upgrade: "websocket" } });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  return new Client(response.webSocket);
}

/** Sends printed messages as they are and takes what comes up to the answer. */
async function sendPrinted(client: Client, printed: string): Promise<{ response: Json; before: Json[] }> {
  client.send(printed);
  return client.until(json(printed).id);
}

function fromAgent(agent: Agent, update: Json): void {
  const params = { sessionId: "agent-session", update };
  agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params }));
}

async function openPrinted(
  client: Client,
  host: Host,
  initialize: string,
  newSession: string,
  result: Json = {},
) {
  const initialized = (await sendPrinted(client, initialize)).response;
  const opening = sendPrinted(client, newSession);
  const agent = await host.agent();
  const request = await agent.line();
  agent.answer(request, { sessionId: "agent-session", ...result });
  const { response } = await opening;
  const { sessionId } = response.result as { sessionId: string };
  return { initialized, agent, request, response, sessionId };
}

/** Client frames of the log, as every reader sees them. */
async function clientFrames(workspace: string, sessionId: string): Promise<Json[]> {
  const all = await events(workspace, sessionId);
  return all
    .filter(({ kind, source }) => kind === "acp.frame" && source === "client")
    .map(({ payload }) => (payload as { message: Json }).message);
}

const text = (words: string) => ({ type: "text", text: words });
const capabilities = { agentCapabilities: { modes: ["ask", "code", "architect"] } };

describe("the web client of seed 002", () => {
  async function opened() {
    const workspace = workspaceName();
    const agentInfo = { name: "Claude Code", version: "1.0.0" };
    const host = await hostOf(workspace, ["claude-code"], { agentInfo, ...capabilities });
    const client = await agentSocket(workspace);
    client.send(seed002.selectAgent);
    const statuses = [await client.takeJson(), await client.takeJson()];
    const session = await openPrinted(client, host, seed002.initialize, seed002.newSession);
    return { workspace, host, client, statuses, ...session };
  }

  it("chooses an agent, and every printed message has its printed counterpart", async () => {
    const { workspace, client, agent, statuses, initialized, request, sessionId } = await opened();
    for (const status of statuses) expect(seed002.agentStatus).toContain(`"${status.status}"`);
    expect(statuses).toEqual([
      { type: "agent_status", status: "starting", agentType: "claude-code" },
      { type: "agent_status", status: "ready", agentType: "claude-code" },
    ]);
    expect(initialized).toMatchObject(json(seed002.initializeResult));
    expect(request).toMatchObject({ method: "session/new", params: { cwd: "/workspace", mcpServers: [] } });

    client.send(forSession(seed002.prompt, sessionId));
    const prompt = await agent.line();
    expect(prompt).toMatchObject({
      method: "session/prompt",
      params: { sessionId: "agent-session", prompt: [text("Read the README and summarize it")] },
    });
    expect(prompt.params).not.toHaveProperty("message");

    const received = async (printed: string) =>
      expect(await client.takeJson()).toEqual(json(forSession(printed, sessionId)));
    fromAgent(agent, {
      sessionUpdate: "agent_message_chunk",
      content: text("Let me read the README file..."),
    });
    await received(seed002.messageChunk);
    fromAgent(agent, {
      sessionUpdate: "agent_thought_chunk",
      content: text("I should look at the README.md file first..."),
    });
    await received(seed002.thoughtChunk);
    const rawInput = { path: "/workspace/README.md" };
    fromAgent(agent, { sessionUpdate: "tool_call", toolCallId: "tc-001", title: "read_file", rawInput });
    await received(seed002.toolCall);
    const output = text("# Simple Agent Manager\n\nA serverless platform...");
    fromAgent(agent, {
      sessionUpdate: "tool_call_update",
      toolCallId: "tc-001",
      status: "completed",
      content: [{ type: "content", content: output }],
    });
    await received(seed002.toolCallUpdate);

    agent.answer(prompt, json(seed002.promptResponse).result);
    await received(seed002.promptResponse);

    client.send(forSession(seed002.setMode, sessionId));
    const setMode = await agent.line();
    expect(setMode).toMatchObject({ method: "session/set_mode", params: { modeId: "code" } });
    agent.answer(setMode, {});
    expect(await client.takeJson()).toEqual({ jsonrpc: "2.0", id: 5, result: {} });

    // The log has canonical ACP, whoever wrote it.
    expect(await clientFrames(workspace, sessionId)).toMatchObject([
      { id: 2, method: "session/new", params: { cwd: "/workspace", mcpServers: [] } },
      { id: 3, method: "session/prompt", params: { sessionId, prompt: [{ type: "text" }] } },
      { id: 5, method: "session/set_mode", params: { sessionId, modeId: "code" } },
    ]);
  });

  it("cancels as printed", async () => {
    const { client, agent, sessionId } = await opened();
    client.send(forSession(seed002.prompt, sessionId));
    const prompt = await agent.line();
    client.send(forSession(seed002.cancel, sessionId));
    expect(await agent.line()).toEqual({ ...json(seed002.cancel), params: { sessionId: "agent-session" } });
    agent.answer(prompt, { stopReason: "cancelled" });
    expect((await client.takeJson()).result).toEqual({ stopReason: "cancelled" });
  });

  const printedRequest = json(seed002.permissionRequest).params as Json;

  /** The agent asks; the client sees the question. */
  async function asked(kinds: string[]) {
    const session = await opened();
    const { client, agent, sessionId } = session;
    client.send(forSession(seed002.prompt, sessionId));
    await agent.line();
    const { toolName, description, input } = printedRequest;
    const toolCall = { toolCallId: "t", name: toolName, title: description, rawInput: input };
    const options = kinds.map((kind) => ({ optionId: `id-of-${kind}`, kind, name: kind }));
    const params = { sessionId: "agent-session", toolCall, options };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 100, method: "session/request_permission", params }));
    const request = await client.takeJson();
    const { requestId } = request.params as { requestId: string };
    const respond = async (response: unknown, about: unknown = requestId) =>
      (await client.request("session/respond_to_permission", { requestId: about, response })).response;
    return { ...session, request, requestId, respond };
  }

  it("is asked for permission, and answers as printed", async () => {
    const { client, agent, request, requestId } = await asked(["allow_always", "allow_once", "reject_once"]);
    const { requestId: _, ...printed } = printedRequest;
    expect(request).toMatchObject({ method: "session/request_permission", id: requestId, params: printed });
    expect(request.params).toHaveProperty("options");
    client.send(seed002.respondToPermission.replace("perm-xyz789", requestId));
    expect((await client.until(4)).response).toEqual({ jsonrpc: "2.0", id: 4, result: {} });
    expect(await agent.line()).toEqual({
      jsonrpc: "2.0",
      id: 100,
      result: { outcome: { outcome: "selected", optionId: "id-of-allow_once" } },
    });
  });

  it("may answer by a response as well", async () => {
    const { client, agent, requestId } = await asked(["allow_once"]);
    const result = { outcome: { outcome: "selected", optionId: "id-of-allow_once" } };
    client.send(JSON.stringify({ jsonrpc: "2.0", id: requestId, result }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 100, result });
  });

  it("cannot answer what is not open, nor more than it was asked", async () => {
    const { respond, agent, sessionId } = await asked(["allow_always", "reject_once"]);
    expect((await respond("allow_once")).error).toMatchObject({ code: -32602 });
    expect((await respond("reject_always")).error).toMatchObject({ code: -32602 });
    expect((await respond("yes")).error).toMatchObject({ code: -32602 });
    expect((await respond("allow_once", 7)).error).toMatchObject({ code: -32602 });
    for (const about of ["perm-xyz789", `${sessionId}:1`, `${crypto.randomUUID()}:5`])
      expect((await respond("reject_once", about)).error).toMatchObject({ code: -32002 });
    expect(await respond("reject_once")).toMatchObject({ result: {} });
    expect(await agent.line()).toMatchObject({ result: { outcome: { optionId: "id-of-reject_once" } } });
    expect((await respond("reject_once")).error).toMatchObject({ code: -32002 });
  });

  it.each([
    ["session/prompt", { message: { role: "assistant", content: "a" } }],
    ["session/prompt", {}],
    ["session/new", { workspaceUri: "https://example.org" }],
  ])("%s with %j is refused, and the connection goes on", async (method, params) => {
    const { client, sessionId } = await opened();
    const { response } = await client.request(method, { sessionId, ...params });
    expect(response.error).toMatchObject({ code: -32602 });
    expect((await client.request("_x", {})).response.error).toMatchObject({ code: -32601 });
  });

  it("speaks its dialect on /acp just the same", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["claude-code"], capabilities);
    const client = await Client.raw(workspace);
    const { agent, sessionId } = await openPrinted(client, host, seed002.initialize, seed002.newSession);
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("a") });
    expect((await client.takeJson()).params).toEqual({
      sessionId,
      update: { kind: "agent_message_chunk", delta: text("a") },
    });
  });
});

describe("control frames", () => {
  it("ping is answered, before initialize and after", async () => {
    const client = await agentSocket(workspaceName());
    for (const ping of ['{"type":"ping"}', '{ "type" : "ping" }']) {
      client.send(ping);
      expect(await client.take()).toBe('{"type":"pong"}');
    }
    await client.request("initialize", { protocolVersion: 1 });
    client.send('{"type":"ping"}');
    expect(await client.take()).toBe('{"type":"pong"}');
  });

  it("that mean nothing are errors, and on /acp all of them do", async () => {
    const client = await agentSocket(workspaceName());
    for (const frame of ['{"type":"select_agent"}', '{"type":"stop"}', "{}"]) {
      client.send(frame);
      expect(await client.takeJson()).toMatchObject({ id: null, error: { code: -32600 } });
    }
    const other = await Client.open(workspaceName());
    for (const frame of [seed002.selectAgent, '{"type":"ping"}']) {
      other.send(frame);
      expect(await other.takeJson()).toMatchObject({ id: null, error: { code: -32600 } });
    }
  });

  it("an agent that is not there is named together with those that are", async () => {
    const workspace = workspaceName();
    await hostOf(workspace, ["one", "two"]);
    const client = await agentSocket(workspace);
    client.send(seed002.selectAgent);
    expect(await client.takeJson()).toEqual({
      type: "agent_status",
      status: "error",
      agentType: "claude-code",
      error: 'Unknown agent "claude-code"; this workspace has: one, two',
    });
  });

  it("an agent is not ready before it has answered, nor without a host", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace, { initialize: false });
    const client = await agentSocket(workspace);
    client.send('{"type":"select_agent","agentType":"scripted"}');
    expect(await client.takeJson()).toMatchObject({ status: "starting" });
    host.send(JSON.stringify({ t: "agent_failed", id: "scripted", error: "it has no key" }));
    expect(await client.takeJson()).toMatchObject({ status: "error", error: "it has no key" });

    const lonely = await agentSocket(workspaceName());
    lonely.send(seed002.selectAgent);
    expect(await lonely.takeJson()).toMatchObject({ status: "starting" });
    expect(await lonely.takeJson()).toMatchObject({
      status: "error",
      error: expect.stringContaining("No host"),
    });
  });

  it("another agent is chosen on the same connection: the first one stops, and initialize comes again", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one", "two"]);
    const client = await agentSocket(workspace);
    const first = await openPrinted(client, host, seed002.initialize, seed002.newSession);
    client.send(forSession(seed002.prompt, first.sessionId));
    await first.agent.line();

    client.send('{"type":"select_agent","agentType":"two"}');
    const heard: Json[] = [];
    do heard.push(await client.takeJson());
    while (heard.at(-1)?.status !== "ready");
    const statuses = heard.filter(({ type }) => type === "agent_status");
    expect(statuses).toEqual([
      { type: "agent_status", status: "restarting", agentType: "two" },
      { type: "agent_status", status: "ready", agentType: "two" },
    ]);
    expect(heard).toContainEqual({ jsonrpc: "2.0", id: 3, result: { stopReason: "cancelled" } });
    expect(await first.agent.stopped()).toBe("closed");

    client.send('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}');
    expect((await client.until(7)).response.result).toMatchObject({ protocolVersion: 1 });
    const opening = client.request("session/new", { cwd: "/", mcpServers: [] });
    let order = await host.takeJson();
    while (order.t === "warm") order = await host.takeJson();
    expect(order).toMatchObject({ t: "open", agent: "two" });
    void opening;
  });

  it("an unknown agent changes nothing for the one in use", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    const { agent, sessionId } = await openPrinted(client, host, seed002.initialize, seed002.newSession);
    client.send('{"type":"select_agent","agentType":"two"}');
    expect(await client.takeJson()).toMatchObject({ type: "agent_status", status: "error" });
    client.send(forSession(seed002.prompt, sessionId));
    expect((await agent.line()).method).toBe("session/prompt");
  });

  it("a failure of the agent later on is told", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    await sendPrinted(client, seed002.initialize);
    client.send(seed002.newSession);
    const agent = await host.agent();
    await agent.line();
    agent.items(JSON.stringify(["exit", { code: 3, signal: null, stderr: "no key" }]));
    const { response, before } = await client.until(2);
    expect(before).toEqual([
      {
        type: "agent_status",
        status: "error",
        agentType: "one",
        error: "The agent could not be started: exit code 3",
      },
    ]);
    expect(response.error).toMatchObject({ code: -32603 });
  });

  it("an agent that ends with nothing to do is reported as well, and that it is back", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    const canonical = await Client.open(workspace);
    const { agent, sessionId } = await openPrinted(client, host, seed002.initialize, seed002.newSession);
    await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    agent.items(JSON.stringify(["exit", { code: null, signal: "SIGKILL", stderr: "" }]));
    expect(await client.takeJson()).toEqual({
      type: "agent_status",
      status: "error",
      agentType: "one",
      error: "The agent process ended: killed by SIGKILL",
    });
    client.send(forSession(seed002.prompt, sessionId));
    expect(await client.takeJson()).toEqual({ type: "agent_status", status: "restarting", agentType: "one" });
    const next = await host.agent();
    next.answer(await next.line(), { sessionId: "another" });
    const prompt = await next.line();
    expect(await client.takeJson()).toEqual({ type: "agent_status", status: "ready", agentType: "one" });
    next.answer(prompt, { stopReason: "end_turn" });
    await client.until(3);
    // Who is not on this endpoint hears nothing of it.
    await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] }).then(({ before }) => {
      expect(before.map(({ method }) => method)).toEqual(["session/update", "session/update"]);
    });
  });

  it("an error of an agent that is well is no failure", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    const { agent, sessionId } = await openPrinted(client, host, seed002.initialize, seed002.newSession);
    client.send(forSession(seed002.prompt, sessionId));
    const { id } = await agent.line();
    agent.items(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: "no luck" } }));
    expect((await client.until(3)).response.error).toMatchObject({ message: "no luck" });
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("still here") });
    expect((await client.takeJson()).method).toBe("session/update");
  });

  it("a disconnect leaves the agent at work", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    const { agent, sessionId } = await openPrinted(client, host, seed002.initialize, seed002.newSession);
    client.send(forSession(seed002.prompt, sessionId));
    const prompt = await agent.line();
    client.socket.close();
    const second = await agentSocket(workspace);
    await sendPrinted(second, seed002.initialize);
    const { response } = await second.request("session/load", { sessionId });
    expect(response.error).toBeUndefined();
    agent.answer(prompt, { stopReason: "end_turn" });
    await agent.durable();
  });

  it("need a token and a WebSocket", async () => {
    const upgrade = { headers: { Upgrade: "websocket" } };
    expect((await exports.default.fetch("https://edge.test/agent/ws", upgrade)).status).toBe(401);
    const bearer = await token({ workspace: "w" });
    expect((await exports.default.fetch(`https://edge.test/agent/ws?token=${bearer}`)).status).toBe(426);
    const elsewhere = `https://edge.test/agent/ws?token=${bearer}&workspace=other`;
    expect((await exports.default.fetch(elsewhere, upgrade)).status).toBe(404);
  });
});

describe("a client of seed 000", () => {
  async function opened() {
    const workspace = workspaceName();
    const agentInfo = { name: "Claude Code Container", version: "1.0.0" };
    const host = await hostOf(workspace, ["claude"], { agentInfo, agentCapabilities: {} });
    const client = await Client.raw(workspace);
    return {
      workspace,
      client,
      ...(await openPrinted(client, host, seed000.initialize, seed000.newSession)),
    };
  }

  it("has every message as printed", async () => {
    const { workspace, client, agent, initialized, request, response, sessionId } = await opened();
    expect(initialized).toMatchObject(json(seed000.initializeResult));
    expect(request.params).toMatchObject({ mcpServers: [] });
    expect(response).toEqual({ jsonrpc: "2.0", id: 2, result: { sessionId } });

    client.send(forSession(seed000.prompt, sessionId));
    const prompt = await agent.line();
    expect((prompt.params as { prompt: Json[] }).prompt.map(({ type }) => type)).toEqual([
      "text",
      "image",
      "resource",
      "resource_link",
      "text",
      "resource_link",
      "resource_link",
    ]);
    fromAgent(agent, { sessionUpdate: "agent_thought_chunk", content: text("Let me see") });
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("It says hello.") });
    agent.answer(prompt, { stopReason: "end_turn" });
    const { response: answer, before } = await client.until(3);
    expect(before).toEqual(
      [seed000.thinking, seed000.working, seed000.completed].map((printed) =>
        json(forSession(printed, sessionId)),
      ),
    );
    expect(answer).toEqual({ jsonrpc: "2.0", id: 3, result: { stopReason: "end_turn" } });
    expect((await clientFrames(workspace, sessionId))[0]).toMatchObject({
      method: "session/new",
      params: { cwd: "/path/to/repo", mcpServers: [] },
    });
  });

  it("hears of an error as a status, then as the error", async () => {
    const { client, agent, sessionId } = await opened();
    client.send(forSession(seed000.prompt, sessionId));
    const { id } = await agent.line();
    agent.items(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: "no luck" } }));
    const { response, before } = await client.until(3);
    expect(before).toMatchObject([
      { params: { sessionId, status: "error", content: [{ type: "text", content: "no luck" }] } },
    ]);
    expect(response.error).toEqual({ code: -32603, message: "no luck" });
  });

  describe("that looks on", () => {
    const ends = (messages: Json[]) =>
      messages.flatMap(({ params }) => {
        const { status } = (params ?? {}) as Json;
        return status === "completed" || status === "error" ? [status] : [];
      });

    async function watcher(workspace: string, sessionId: string): Promise<Client> {
      const client = await Client.raw(workspace);
      await sendPrinted(client, seed000.initialize);
      await client.request("session/resume", { sessionId });
      return client;
    }

    it("sees each turn completed, or failed, once", async () => {
      const { workspace, client, agent, sessionId } = await opened();
      const watchers = [await watcher(workspace, sessionId), await watcher(workspace, sessionId)];
      const canonical = await Client.open(workspace);
      await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
      const content = [{ type: "text", content: "hi" }];
      const turn = async (end: (prompt: Json) => void) => {
        const id = client.call("session/prompt", { sessionId, content });
        end(await agent.line());
        return ends((await client.until(id)).before);
      };
      expect(await turn((prompt) => agent.answer(prompt, { stopReason: "end_turn" }))).toEqual(["completed"]);
      const error = { code: -32603, message: "no luck" };
      const fail = ({ id }: Json) => agent.items(JSON.stringify({ jsonrpc: "2.0", id, error }));
      expect(await turn(fail)).toEqual(["error"]);
      // One of them prompts now, and the other clients look on.
      const id = watchers[0]?.call("session/prompt", { sessionId, content });
      agent.answer(await agent.line(), { stopReason: "end_turn" });
      const seen = await watchers[0]?.until(id);
      expect(ends(seen?.before as Json[])).toEqual(["completed", "error", "completed"]);
      for (const one of [client, watchers[1] as Client]) {
        const { before } = await one.request("session/resume", { sessionId });
        expect(ends(before)).toEqual(one === client ? ["completed"] : ["completed", "error", "completed"]);
      }
      const resumed = await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
      expect(resumed.before.map(({ method }) => method)).toEqual(Array(3).fill("session/update"));
    });

    it("and has sent the same prompt again hears of its end once", async () => {
      const { workspace, client, agent, sessionId } = await opened();
      const other = await watcher(workspace, sessionId);
      const params = {
        sessionId,
        content: [{ type: "text", content: "hi" }],
        _meta: { "acp-edge/idempotencyKey": "k" },
      };
      const ids = [client.call("session/prompt", params), other.call("session/prompt", params)];
      // Both are there before it is answered.
      const prompt = await agent.line();
      await other.request("session/resume", { sessionId });
      agent.answer(prompt, { stopReason: "end_turn" });
      expect(ends((await client.until(ids[0])).before)).toEqual(["completed"]);
      expect(ends((await other.until(ids[1])).before)).toEqual(["completed"]);
    });
  });

  it.each([
    ["session/new", { workspaceUri: "/no/uri" }],
    ["session/new", { mode: "other" }],
    ["session/prompt", { content: [{ type: "video", content: "" }] }],
  ])("is refused %s with %j", async (method, params) => {
    const { client, sessionId } = await opened();
    expect((await client.request(method, { sessionId, ...params })).response.error).toMatchObject({
      code: -32602,
    });
  });
});

describe("over HTTP", () => {
  it("a client of seed 000 has the same messages on its event streams", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["claude"]);
    const bearer = `Bearer ${await token({ workspace })}`;
    const call = (method: string, headers: Record<string, string>, body: string | null = null) =>
      exports.default.fetch("https://edge.test/acp", {
        method,
        headers: { Authorization: bearer, "Content-Type": "application/json", ...headers },
        body,
      });
    const initialized = await call("POST", {}, seed000.initialize);
    expect(((await initialized.json()) as Json).result).toMatchObject({ protocolVersion: "0.3.1" });
    const connection = { "Acp-Connection-Id": initialized.headers.get("Acp-Connection-Id") as string };
    const opening = call("POST", connection, seed000.newSession);
    const agent = await host.agent();
    agent.answer(await agent.line(), { sessionId: "agent-session" });
    expect((await opening).status).toBe(202);
    const stream = { ...connection, Accept: "text/event-stream" };
    const [opened] = await streamed(await call("GET", stream), 1);
    const { sessionId } = json(opened?.data as string).result as { sessionId: string };

    const session = { "Acp-Session-Id": sessionId };
    const prompt = forSession(seed000.prompt, sessionId);
    expect((await call("POST", { ...connection, ...session }, prompt)).status).toBe(202);
    const request = await agent.line();
    fromAgent(agent, { sessionUpdate: "agent_thought_chunk", content: text("Let me see") });
    agent.answer(request, { stopReason: "end_turn" });
    const events = await streamed(await call("GET", { ...stream, ...session }), 3);
    expect(events.map(({ data }) => json(data as string))).toEqual([
      json(forSession(seed000.thinking, sessionId)),
      json(forSession(seed000.completed, sessionId)),
      { jsonrpc: "2.0", id: 3, result: { stopReason: "end_turn" } },
    ]);
    // What is said in two messages is done with after the second: who goes on from the first gets both.
    const [thinking, completed, answer] = events.map(({ id }) => id);
    expect(completed).toBe(thinking);
    expect(answer).not.toBe(completed);
  });

  /** Posts a printed message to its session, if it has one. */
  async function postPrinted(peer: HttpPeer, printed: string, sessionId?: string): Promise<void> {
    const message = sessionId === undefined ? printed : forSession(printed, sessionId);
    expect((await peer.post(message, sessionId)).status).toBe(202);
  }

  async function openOverHttp(peer: HttpPeer, host: Host, newSession: string, result: Json = {}) {
    const own = await peer.stream();
    await postPrinted(peer, newSession);
    const agent = await host.agent();
    const request = await agent.line();
    agent.answer(request, { sessionId: "agent-session", ...result });
    const response = (await messages(own, json(newSession).id)).at(-1) as Json;
    const { sessionId } = response.result as { sessionId: string };
    return { own, agent, request, response, sessionId };
  }

  const messages = async (stream: EventReader, id: unknown) =>
    (await stream.until(id)).map(({ message }) => message);

  it("seed 000: an error, a permission, a replay, and a client that looks on", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["claude"]);
    const peer = await HttpPeer.open(workspace, seed000.initialize);
    const { agent, sessionId } = await openOverHttp(peer, host, seed000.newSession);
    const stream = await peer.stream(sessionId);
    const other = await HttpPeer.open(workspace, seed000.initialize);
    const watched = await other.stream(sessionId);
    const resumed = await other.call("session/resume", { sessionId });
    await watched.until(resumed);

    await postPrinted(peer, seed000.prompt, sessionId);
    const prompt = await agent.line();
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("It says hello.") });
    const options = [{ optionId: "o", kind: "allow_once", name: "Allow" }];
    const params = { sessionId: "agent-session", toolCall: { toolCallId: "t", title: "Write" }, options };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 9, method: "session/request_permission", params }));
    const working = json(forSession(seed000.working, sessionId));
    expect(await stream.take()).toEqual(working);
    const asked = (await stream.take()).params as Json;
    expect(asked).toMatchObject({ requestId: expect.any(String), toolName: expect.any(String) });
    const answer = { requestId: asked.requestId, response: "allow_once" };
    const answered = await peer.call("session/respond_to_permission", answer, sessionId);
    expect(await agent.line()).toMatchObject({ id: 9, result: { outcome: { optionId: "o" } } });
    expect((await stream.until(answered)).at(-1)?.message.result).toEqual({});
    agent.answer(prompt, { stopReason: "end_turn" });
    const completed = json(forSession(seed000.completed, sessionId));
    expect(await messages(stream, 3)).toEqual([
      completed,
      { jsonrpc: "2.0", id: 3, result: { stopReason: "end_turn" } },
    ]);
    // It sees what the other one typed, hears its end, and gets no answer.
    const seen: Json[] = [];
    while ((seen.at(-1)?.params as Json | undefined)?.status !== "completed") seen.push(await watched.take());
    expect(seen).toContainEqual(working);
    expect(seen.at(-1)).toEqual(completed);
    expect(seen.every(({ method }) => method !== undefined)).toBe(true);

    const bad = JSON.stringify({ ...json(seed000.prompt), id: 4, params: { sessionId, content: 7 } });
    await postPrinted(peer, bad, sessionId);
    expect((await messages(stream, 4)).at(-1)).toMatchObject({ error: { code: -32602 } });

    const late = await HttpPeer.open(workspace, seed000.initialize);
    const own = await late.stream();
    const replay = await late.stream(sessionId);
    const loaded = await late.call("session/load", { sessionId });
    for (let blocks = (json(seed000.prompt).params as { content: Json[] }).content.length + 2; blocks > 0; ) {
      expect(await replay.take()).toMatchObject({
        params: { status: "working", content: [expect.anything()] },
      });
      blocks -= 1;
    }
    expect(await replay.take()).toEqual(working);
    expect((await own.until(loaded)).at(-1)?.message.error).toBeUndefined();
  });

  it("seed 003: every message as printed", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["opencode"], json(seed003.initializeResult).result as Json);
    const peer = await HttpPeer.open(workspace, seed003.initialize);
    expect(peer.initialized).toMatchObject(json(seed003.initializeResult));
    const { sessionId: _, ...setup } = json(seed003.newSessionResult).result as Json;
    const opened = await openOverHttp(peer, host, seed003.newSession, setup);
    const { agent, request, response, sessionId } = opened;
    expect(request.params).toMatchObject({
      mcpServers: [{ name: "weather", command: "bun", args: ["x", "@h1deya/mcp-server-weather"], env: [] }],
    });
    const printed = (message: string) => json(forSession(message, sessionId));
    expect(response).toEqual(printed(seed003.newSessionResult));

    const stream = await peer.stream(sessionId);
    await postPrinted(peer, seed003.prompt, sessionId);
    const prompt = await agent.line();
    expect(prompt.params?.prompt).toEqual((json(seed003.prompt).params as Json).prompt);
    for (const message of [seed003.messageChunk, seed003.toolCall, seed003.toolCallUpdate]) {
      agent.items(JSON.stringify(json(forSession(message, "agent-session"))));
      expect(await stream.take()).toEqual(printed(message));
    }
    agent.items(JSON.stringify(json(forSession(seed003.permissionRequest, "agent-session"))));
    const asked = await stream.take();
    expect(asked).toEqual({ ...printed(seed003.permissionRequest), id: asked.id });
    await postPrinted(peer, JSON.stringify({ ...json(seed003.permissionResponse), id: asked.id }), sessionId);
    expect(await agent.line()).toEqual(json(seed003.permissionResponse));
    agent.answer(prompt, json(seed003.promptResponse).result);
    expect(await stream.take()).toEqual(printed(seed003.promptResponse));
    for (const message of [seed003.setMode, seed003.setModel]) {
      await postPrinted(peer, message, sessionId);
      const line = await agent.line();
      expect(line).toEqual({ ...json(forSession(message, "agent-session")), id: line.id });
      const { error } = json(seed003.error);
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: line.id, error }));
      expect(await stream.take()).toEqual({ jsonrpc: "2.0", id: json(message).id, error });
    }
    await postPrinted(peer, seed003.prompt, sessionId);
    await agent.line();
    await postPrinted(peer, seed003.cancel, sessionId);
    expect(await agent.line()).toEqual(json(forSession(seed003.cancel, "agent-session")));

    const second = await HttpPeer.open(workspace, seed003.initialize);
    const own = await second.stream();
    await postPrinted(second, seed003.load, sessionId);
    expect((await messages(own, 3)).at(-1)?.error).toBeUndefined();
  });

  /** The first events of a stream. */
  async function streamed(response: Response, count: number): Promise<Record<string, string>[]> {
    const reader = (response.body as ReadableStream<Uint8Array>)
      .pipeThrough(new TextDecoderStream())
      .getReader();
    let all = "";
    for (;;) {
      const events = all
        .split("\n\n")
        .slice(0, -1)
        .filter((event) => event.includes("data:"));
      if (events.length >= count) {
        await reader.cancel();
        return events.map((event) =>
          Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s))),
        );
      }
      const { value, done } = await reader.read();
      if (done) throw new Error(`The stream ended after ${all}`);
      all += value;
    }
  }
});

describe("versions that are strings", () => {
  it.each(["2", "1.0", "latest", ""])("%j is refused", async (protocolVersion) => {
    const client = await Client.raw(workspaceName());
    for (const more of [{}, { capabilities: {} }]) {
      const { response } = await client.request("initialize", { protocolVersion, ...more });
      expect(response.error).toMatchObject({ code: -32602 });
    }
  });
});

describe("seed 003", () => {
  async function opened() {
    const workspace = workspaceName();
    const printed = json(seed003.initializeResult).result as Json;
    const host = await hostOf(workspace, ["opencode"], printed);
    const client = await Client.raw(workspace);
    const { sessionId: _, ...setup } = json(seed003.newSessionResult).result as Json;
    const session = await openPrinted(client, host, seed003.initialize, seed003.newSession, setup);
    return { workspace, client, ...session };
  }

  it("has every message as printed", async () => {
    const { workspace, client, agent, initialized, request, response, sessionId } = await opened();
    const printed = (message: string) => json(forSession(message, sessionId));
    expect(initialized).toMatchObject(json(seed003.initializeResult));
    expect(request.params).toMatchObject({
      mcpServers: [{ name: "weather", command: "bun", args: ["x", "@h1deya/mcp-server-weather"], env: [] }],
    });
    expect(response).toEqual(printed(seed003.newSessionResult));

    client.send(forSession(seed003.prompt, sessionId));
    const prompt = await agent.line();
    expect(prompt.params?.prompt).toEqual((json(seed003.prompt).params as Json).prompt);
    for (const message of [seed003.messageChunk, seed003.toolCall, seed003.toolCallUpdate]) {
      agent.items(JSON.stringify(json(forSession(message, "agent-session"))));
      expect(await client.takeJson()).toEqual(printed(message));
    }
    agent.items(JSON.stringify(json(forSession(seed003.permissionRequest, "agent-session"))));
    const asked = await client.takeJson();
    expect(asked).toEqual({ ...printed(seed003.permissionRequest), id: asked.id });
    client.send(JSON.stringify({ ...json(seed003.permissionResponse), id: asked.id }));
    expect(await agent.line()).toEqual(json(seed003.permissionResponse));

    // Files are the workspace's own: its host answers, and gets the path as the agent wrote it.
    for (const message of [seed003.readFile, seed003.writeFile]) {
      agent.items(JSON.stringify(json(forSession(message, "agent-session"))));
      agent.items(
        JSON.stringify(["answer", JSON.stringify({ ...json(seed003.readFileResult), id: json(message).id })]),
      );
      expect(await agent.line()).toEqual({ ...json(seed003.readFileResult), id: json(message).id });
    }
    agent.answer(prompt, json(seed003.promptResponse).result);
    expect(await client.takeJson()).toEqual(printed(seed003.promptResponse));

    for (const [message, method] of [
      [seed003.setMode, "session/set_mode"],
      [seed003.setModel, "session/set_model"],
    ] as const) {
      client.send(forSession(message, sessionId));
      const line = await agent.line();
      expect(line).toEqual({ ...json(forSession(message, "agent-session")), id: line.id });
      expect(line.method).toBe(method);
      const { error } = json(seed003.error);
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: line.id, error }));
      expect(await client.takeJson()).toEqual({ jsonrpc: "2.0", id: json(message).id, error });
    }
    expect((await clientFrames(workspace, sessionId))[0]).toMatchObject({
      params: { mcpServers: [{ command: "bun" }] },
    });

    const second = await Client.open(workspace);
    second.send(forSession(seed003.load, sessionId));
    expect((await second.until(3)).response.error).toBeUndefined();
  });

  it("cancels as printed", async () => {
    const { client, agent, sessionId } = await opened();
    client.send(forSession(seed003.prompt, sessionId));
    await agent.line();
    client.send(forSession(seed003.cancel, sessionId));
    expect(await agent.line()).toEqual(json(forSession(seed003.cancel, "agent-session")));
  });

  it("a local server without a program is refused", async () => {
    const client = await Client.open(workspaceName());
    const mcpServers = [{ type: "local", name: "x", command: [] }];
    expect((await client.request("session/new", { cwd: "/", mcpServers })).response.error).toMatchObject({
      code: -32602,
    });
  });
});

describe("a canonical client", () => {
  it("gets every byte the agent wrote, and the log has every byte it wrote", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await Client.open(workspace);
    const newSession =
      '{ "jsonrpc":"2.0", "id":1.0,"method":"session/new","params":{"cwd":"/x","mcpServers":[ ],"mode":"m","workspaceUri":"no","big":12345678901234567890}}';
    client.send(newSession);
    const agent = await host.agent();
    agent.answer(await agent.line(), { sessionId: "agent-session" });
    const { sessionId } = (await client.takeJson()).result as { sessionId: string };
    const update = (id: string) =>
      `{"method":"session/update", "jsonrpc":"2.0","params":{"sessionId":"${id}","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"n":1.0,"big":12345678901234567890}}}`;
    agent.items(update("agent-session"));
    expect(await client.take()).toBe(update(sessionId));
    // Forms of other contracts mean nothing here.
    const prompt = `{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"sessionId":"${sessionId}","message":{"role":"user"}, "x":1.0}}`;
    client.send(prompt);
    expect((await agent.line()).params).toEqual({
      sessionId: "agent-session",
      message: { role: "user" },
      x: 1,
    });
    const { response } = await client.request("session/respond_to_permission", {
      requestId: "a",
      response: "b",
    });
    expect(response.error).toMatchObject({ code: -32602 });
  });
});
