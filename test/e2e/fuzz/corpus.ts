/** Valid messages of every kind, to be damaged. */
import {
  type HostControl,
  type HostEvent,
  type HostHead,
  LINK_VERSION,
} from "../../../src/protocol/host-wire.ts";
import * as container from "../../fixtures/dialects/container-data-model.ts";
import * as localServers from "../../fixtures/dialects/local-mcp-servers.ts";
import * as webGateway from "../../fixtures/dialects/web-gateway.ts";
import { samples } from "./samples.ts";

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
    request("session/close", { sessionId: crypto.randomUUID() }),
    request("session/delete", { sessionId: crypto.randomUUID() }),
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
    request("session/fork", { ...open, sessionId: crypto.randomUUID() }),
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

/** A value with all of its optional fields. */
type Complete<T> = T extends readonly (infer Item)[]
  ? Complete<Item>[]
  : T extends object
    ? { [Name in keyof T]-?: Complete<Exclude<T[Name], undefined>> }
    : T;

const OFFER: Complete<Extract<HostControl, { t: "offers" }>["agents"][number]> = {
  ...{ id: "demo", name: "Demo", default: true, available: false },
  ...{ reason: "no", description: "d", version: "1", aliases: ["a"] },
};

export function hostHello(name: string) {
  return {
    t: "hello",
    version: LINK_VERSION,
    name,
    instance: crypto.randomUUID(),
    root: "/",
    software: { version: "1", node: "24", platform: "linux" },
    capacity: 10,
    maxAgents: 10,
    isolation: "none",
    draining: false,
    agents: [{ id: "demo", name: "Demo", default: true }],
    runs: [] as { sessionId: string; run: string }[],
    secrets: true,
  } satisfies HostControl;
}

/** Every kind of message on a control socket, with every field. */
export function controlMessages(sessionId: string): string[] {
  const git = { branch: "main", head: "abc", ahead: 1, behind: null, modifiedFiles: ["a"], modifiedCount: 1 };
  const messages: { [T in HostControl["t"]]: Complete<Extract<HostControl, { t: T }>> } = {
    hello: { ...hostHello("fuzz"), agents: [OFFER], runs: [{ sessionId, run: crypto.randomUUID() }] },
    agent: { t: "agent", id: "demo", initialize: { protocolVersion: 1, agentCapabilities: {} } },
    agent_failed: { t: "agent_failed", id: "demo", error: "no" },
    offers: { t: "offers", agents: [OFFER] },
    workspace: { t: "workspace", git },
    load: { t: "load", runs: 1, loadAverage: 0.5, freeMemory: 1000 },
    draining: { t: "draining" },
    alive: { t: "alive" },
    renew: { t: "renew", token: "a.b.c" },
  };
  const answers = [...samples("agent", "Response", {})].filter(({ method }) => method === "initialize");
  return [
    ...Object.values(messages),
    { t: "workspace", git: null },
    ...answers.map(({ value }) => ({ ...messages.agent, initialize: value })),
  ].map((message) => JSON.stringify(message));
}

/** The heads of a host's messages to a session, with every field. */
export function hostHeads(): string[] {
  const heads: { [T in HostHead["t"]]: Complete<Extract<HostHead, { t: T }>> } = {
    hello: {
      ...{ t: "hello", run: "r", agent: "a", host: "h", root: "/", processRequest: 1, delivered: 0 },
      ...{ draining: false, io: "host" },
    },
    lines: { t: "lines", first: 1, delivered: 0 },
  };
  return Object.values(heads).map((head) => JSON.stringify(head));
}

/** Every message of a client, with every field of the protocol. */
export function allClientFrames(sessionId: string): string[] {
  const words = { sessionId, cwd: "/", uri: "file:///a", protocolVersion: 1 };
  const others = { ...words, sessionId: crypto.randomUUID() };
  const ends = (method: string) => /session\/(close|delete)/.test(method);
  return [
    ...[...samples("agent", "Request", words)]
      .filter(({ method }) => !ends(method))
      .map(({ method, value }) => request(method, value)),
    ...[...samples("agent", "Request", others)]
      .filter(({ method }) => ends(method))
      .map(({ method, value }) => request(method, value)),
    ...[...samples("agent", "Notification", words)].map(({ method, value }) => note(method, value)),
    ...clientFrames(sessionId),
    ...heavyFrames(sessionId),
    ...OPENINGS,
  ];
}

/** Every request and notification of an agent, with every field of the protocol, and every event of its host. */
export function allHostItems(agentSession: string): string[] {
  const words = { sessionId: agentSession, path: "/a", cwd: "/" };
  const events: { [T in HostEvent[0]]: Complete<Extract<HostEvent, [T | string, unknown]>> } = {
    started: ["started", { pid: 1, command: "demo" }],
    sent: ["sent", request("initialize", { protocolVersion: 1 }, 0)],
    answer: ["answer", '{"jsonrpc":"2.0","id":4,"result":{"content":"a"}}'],
    noise: ["noise", "what?"],
    dropped: ["dropped", "too long"],
    terminal_output: ["terminal_output", { terminalId: "t", data: "text" }],
    terminal_exit: ["terminal_exit", { terminalId: "t", exitCode: 0, signal: null }],
    exit: ["exit", { code: 1, signal: "SIGTERM", error: "e", stderr: "s" }],
  };
  return [
    ...[...samples("client", "Notification", words)].map(({ method, value }) => note(method, value)),
    ...[...samples("client", "Request", words)].map(({ method, value }) => request(method, value)),
    ...hostItems(agentSession),
    ...Object.values(events).map((event) => JSON.stringify(event)),
  ];
}

/** The answers of an agent to requests of this method, or of a client to requests of the agent. */
export function answers(by: "agent" | "client", method: string, id: unknown): string[] {
  return [
    ...[...samples(by, "Response", { sessionId: "agent-session" })]
      .filter((sample) => sample.method === method)
      .map(({ value }) => JSON.stringify({ jsonrpc: "2.0", id, result: value })),
    JSON.stringify({ jsonrpc: "2.0", id, error: { code: -1, message: "no", data: { a: "b" } } }),
  ];
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
