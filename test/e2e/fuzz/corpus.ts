/** Valid messages of every kind, to be damaged. */
import { randomUUID } from "node:crypto";
import { LINK_VERSION } from "../../../src/protocol/host-wire.ts";
import * as container from "../../fixtures/dialects/container-data-model.ts";
import * as localServers from "../../fixtures/dialects/local-mcp-servers.ts";
import * as webGateway from "../../fixtures/dialects/web-gateway.ts";

const request = (method: string, params: unknown, id: unknown = 7) =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });
const note = (method: string, params: unknown) => JSON.stringify({ jsonrpc: "2.0", method, params });
const printed = (seed: object) => Object.values(seed).filter((value) => typeof value === "string");

/** The messages of a client about this session. */
export function clientFrames(sessionId: string): string[] {
  const text = [{ type: "text", text: "hi" }];
  const block = { type: "resource", resource: { uri: "file:///a", text: "a", mimeType: "text/plain" } };
  return [
    request("initialize", { protocolVersion: 1, clientCapabilities: { fs: { readTextFile: true } } }),
    request("initialize", { protocolVersion: "0.1.0", capabilities: {} }),
    request("session/prompt", { sessionId, prompt: text, _meta: { "acp-edge/key": "k" } }, "p"),
    request("session/prompt", { sessionId, prompt: [...text, block], messageId: "m" }),
    request("session/set_mode", { sessionId, modeId: "code" }),
    request("session/set_model", { sessionId, modelId: "m" }),
    request("session/set_config_option", { sessionId, configId: "c", value: "v" }),
    request("session/close", { sessionId: randomUUID() }),
    request("session/delete", { sessionId: randomUUID() }),
    request("_acp-edge/renew", { token: "a.b.c" }),
    request("_vendor/x", { sessionId, list: [1, 2, 3] }),
    note("session/cancel", { sessionId }),
    note("$/cancel_request", { requestId: 7 }),
    note("_vendor/note", { sessionId }),
    JSON.stringify({ jsonrpc: "2.0", id: `${sessionId}:3`, result: { outcome: { outcome: "cancelled" } } }),
    JSON.stringify({ jsonrpc: "2.0", id: `${sessionId}:9`, error: { code: -1, message: "no" } }),
    '{"type":"ping"}',
    '{"type":"select_agent","agentType":"demo"}',
    ...[container, webGateway, localServers]
      .flatMap(printed)
      .filter((one) => !/session\/(new|load|fork)/.test(one))
      .map((one) => one.replaceAll("session-abc123", sessionId).replaceAll("session-uuid", sessionId)),
  ];
}

/** The expensive messages of a client: replays and logins. */
export function heavyFrames(sessionId: string): string[] {
  const open = { sessionId, cwd: "/", mcpServers: [] };
  const stdio = { name: "m", command: "true", args: ["-x"], env: [{ name: "KEY", value: "hidden" }] };
  const http = {
    type: "http",
    name: "h",
    url: "https://mcp.test",
    headers: [{ name: "A", value: "hidden" }],
  };
  return [
    request("authenticate", { methodId: "demo" }),
    request("logout", {}),
    request("session/list", { cwd: "/", cursor: null }),
    request("session/load", open),
    request("session/load", { ...open, _meta: { "acp-edge/after": 3 } }),
    request("session/resume", { ...open, mcpServers: [stdio, http] }),
    request("session/fork", { ...open, sessionId: randomUUID() }),
  ];
}

/** The messages that create a session. */
export const OPENINGS = [
  request("session/new", { cwd: "/", mcpServers: [] }),
  request("session/new", { cwd: "/", mcpServers: [{ name: "m", command: "c", args: [], env: [] }] }),
];

export function linkHeads(sessionId: string): string[] {
  return [
    JSON.stringify({ t: "hello", own: 0, cursors: { [sessionId]: "1.2" } }),
    JSON.stringify({ t: "ack", chars: 100, own: 1 }),
    JSON.stringify({ t: "lines", first: 1 }),
  ];
}

export function hostHello(name: string) {
  return {
    t: "hello",
    version: LINK_VERSION,
    name,
    instance: randomUUID(),
    root: "/",
    software: { version: "1", node: "24", platform: "linux" },
    capacity: 10,
    draining: false,
    agents: [{ id: "demo", name: "Demo", default: true }],
    runs: [],
  };
}

export function controlMessages(sessionId: string): string[] {
  const git = { branch: "main", head: "abc", ahead: 1, behind: null, modifiedFiles: ["a"], modifiedCount: 1 };
  return [
    { ...hostHello("fuzz"), runs: [{ sessionId, run: randomUUID() }] },
    { t: "agent", id: "demo", initialize: { protocolVersion: 1, agentCapabilities: {} } },
    { t: "agent_failed", id: "demo", error: "no" },
    { t: "offers", agents: [{ id: "demo", name: "Demo", default: true, available: false, reason: "no" }] },
    { t: "workspace", git },
    { t: "workspace", git: null },
    { t: "load", runs: 1, loadAverage: 0.5, freeMemory: 1000 },
    { t: "draining" },
    { t: "alive" },
    { t: "renew", token: "a.b.c" },
  ].map((message) => JSON.stringify(message));
}

/** The items of an agent's process. */
export function hostItems(agentSession: string): string[] {
  const update = (of: object) => note("session/update", { sessionId: agentSession, update: of });
  const text = { type: "text", text: "hello" };
  const permission = {
    sessionId: agentSession,
    toolCall: { toolCallId: "t", title: "T" },
    options: [{ optionId: "a", name: "A", kind: "allow_once" }],
  };
  return [
    update({ sessionUpdate: "agent_message_chunk", content: text }),
    update({ sessionUpdate: "agent_thought_chunk", content: text }),
    update({ sessionUpdate: "user_message_chunk", content: text }),
    update({ sessionUpdate: "tool_call", toolCallId: "t", title: "T", kind: "read", status: "pending" }),
    update({ sessionUpdate: "tool_call_update", toolCallId: "t", status: "completed", rawOutput: { a: 1 } }),
    update({ sessionUpdate: "plan", entries: [{ content: "a", priority: "high", status: "pending" }] }),
    update({
      sessionUpdate: "available_commands_update",
      availableCommands: [{ name: "a", description: "b" }],
    }),
    update({ sessionUpdate: "current_mode_update", currentModeId: "code" }),
    update({ sessionUpdate: "config_option_update", configOptions: [] }),
    update({ sessionUpdate: "session_info_update", title: "T" }),
    update({ sessionUpdate: "usage_update", used: 1, size: 2 }),
    request("session/request_permission", permission, 3),
    request("fs/read_text_file", { sessionId: agentSession, path: "/a" }, 4),
    request("terminal/create", { sessionId: agentSession, command: "true" }, 5),
    request("_vendor/ask", { sessionId: agentSession }, "six"),
    note("$/cancel_request", { requestId: 3 }),
    JSON.stringify({ jsonrpc: "2.0", id: 1, result: { sessionId: agentSession, modes: null } }),
    JSON.stringify({ jsonrpc: "2.0", id: 2, result: { stopReason: "end_turn" } }),
    JSON.stringify({ jsonrpc: "2.0", id: 2, error: { code: -32000, message: "no" } }),
    JSON.stringify(["started", { pid: 1, command: "demo" }]),
    JSON.stringify(["sent", request("initialize", { protocolVersion: 1 }, 0)]),
    JSON.stringify(["answer", '{"jsonrpc":"2.0","id":4,"result":{"content":"a"}}']),
    JSON.stringify(["noise", "what?"]),
  ];
}

type Call = readonly [method: string, path: string, body?: string];

/** Every route of the API, for the given session and workspace only. */
export function restCalls(sessionId: string, workspace: string): Call[] {
  const session = `/api/sessions/${sessionId}`;
  const settings = { placement: "spread", policy: { rules: [] }, hostGraceMs: 1000, sharedFiles: true };
  const line = { schema: "acpx.event.v1", session_id: sessionId, seq: 1, kind: "acp.frame", payload: {} };
  return [
    ["GET", "/"],
    ["GET", "/healthz"],
    ["GET", "/acp"],
    ["DELETE", "/acp"],
    ["GET", "/agent/ws"],
    ["GET", "/host/control"],
    ["GET", `/host/sessions/${sessionId}`],
    ["POST", "/api/login", '{"token":"a.b.c"}'],
    ["POST", "/api/logout"],
    ["GET", "/api/sessions?limit=5"],
    ["GET", session],
    ["GET", `${session}/events?after=3&limit=2`],
    ["DELETE", `${session}/queue/${sessionId}`],
    ["POST", `/api/sessions/import?workspace=${workspace}`, JSON.stringify(line)],
    ["GET", "/api/permissions?limit=5"],
    ["POST", `/api/permissions/${sessionId}:3`, '{"optionId":"allow"}'],
    ["POST", `/api/permissions/${sessionId}:3/links`, '{"expiresIn":60}'],
    ["GET", "/answer?link=a.b.c"],
    ["POST", "/answer?link=a.b.c"],
    ["GET", "/api/revocations"],
    ["POST", "/api/revocations", `{"jti":"${sessionId}","until":"2100-01-01T00:00:00Z"}`],
    ["DELETE", `/api/revocations/${sessionId}`],
    ["GET", "/api/shares"],
    ["POST", "/api/shares", `{"session":"${sessionId}","expiresIn":60}`],
    ["DELETE", `/api/shares/${sessionId}`],
    ["GET", "/api/audit?after=1&limit=5&kind=token.refused"],
    ["GET", "/api/workspaces?limit=5"],
    ["GET", `/api/workspaces/${workspace}`],
    ["PUT", `/api/workspaces/${workspace}`, JSON.stringify(settings)],
    ["GET", `/api/agents?workspace=${workspace}`],
    ["GET", `/api/workspaces/${workspace}/secrets`],
    ["PUT", `/api/workspaces/${workspace}/secrets/KEY`, '{"value":"hidden"}'],
    ["DELETE", `/api/workspaces/${workspace}/secrets/KEY`],
    ["GET", `/api/workspaces/${workspace}/webhooks`],
    // The webhook has no address, because a damaged one could belong to anybody.
    ["POST", `/api/workspaces/${workspace}/webhooks`, '{"events":["turn.ended"],"links":true}'],
    ["DELETE", `/api/workspaces/${workspace}/webhooks/${sessionId}`],
    ["POST", `/api/workspaces/${workspace}/webhooks/${sessionId}/test`],
  ];
}

export const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

export const HEADERS = [
  ...["acp-connection-id", "acp-session-id", "last-event-id", "accept", "content-type", "upgrade", "cookie"],
  ...[
    "origin",
    "sec-fetch-site",
    "authorization",
    "sec-websocket-protocol",
    "content-encoding",
    "x-acp-handover",
  ],
  ...["x-acp-host", "x-acp-stream", "x-acp-resumable", "if-none-match", "range"],
];
