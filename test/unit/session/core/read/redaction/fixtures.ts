import { ulid } from "ulid";
import { type Frame, readFrame } from "../../../../../../src/protocol/frame.ts";
import {
  envelope,
  eventId,
  eventIdPrefix,
  isFrame,
  type LogEvent,
} from "../../../../../../src/session/core/events/event.ts";
import { redacted } from "../../../../../../src/session/core/read/redaction/redaction.ts";
import type { Json } from "../../../../../fixtures/json.ts";

export const SESSION = "11111111-2222-4333-8444-555555555555";
export const SECRET = "hunter2";
export const MARK = { "acp-edge/redacted": true };
const PLACE = {
  seq: 1,
  at: Date.parse("2026-01-02T03:04:05.678Z"),
  context: { acpSessionId: null, agentSessionId: null, turnId: null },
};

export function frame(
  direction: "in" | "out",
  message: Json,
  source = direction === "in" ? "agent" : "client",
) {
  const raw = JSON.stringify({ jsonrpc: "2.0", ...message });
  const event: LogEvent = {
    ...PLACE,
    kind: "acp.frame",
    source,
    direction,
    frame: readFrame(raw) as Frame,
    route: {},
  };
  return event;
}

export function note(kind: string, payload: Json): LogEvent {
  return { ...PLACE, kind, source: "gateway", payload } as LogEvent;
}

export const update = (value: unknown, source?: string) =>
  frame("in", { method: "session/update", params: { sessionId: SESSION, update: value } }, source);
export const asks = (method: string, params: unknown) => frame("in", { id: 7, method, params });
export const answers = (direction: "in" | "out", result: unknown) => frame(direction, { id: 7, result });
export const says = (method: string, params: unknown) => frame("out", { id: 7, method, params });

/** The part of an event a reader sees: the message of a frame, the payload of a fact. */
export function seen(event: LogEvent): Json {
  const shown = redacted(event);
  return isFrame(shown) ? (shown.frame.value as Json) : (shown.payload as Json);
}

export function lineOf(event: LogEvent): string {
  return envelope(event, SESSION, eventId(eventIdPrefix(ulid(event.at)), 0));
}

export const SAID = { type: "text", text: "as it was said" };
export const TOOL = { toolCallId: "c", title: "Read a file", kind: "read", status: "completed" };
export const LOCATIONS = [{ path: "/a", line: 3 }];
export const OPTION = { optionId: "o", name: "Allow", kind: "allow_once" };

/** Harmless frames and facts of all kinds. */
export const HARMLESS: readonly LogEvent[] = [
  update({ sessionUpdate: "user_message_chunk", content: SAID, messageId: "m" }),
  update({ sessionUpdate: "agent_message_chunk", content: { ...SAID, annotations: { audience: ["user"] } } }),
  update({
    sessionUpdate: "agent_message_chunk",
    content: { type: "image", data: "AA==", mimeType: "image/png" },
  }),
  update({
    sessionUpdate: "agent_message_chunk",
    content: { type: "resource", resource: { uri: "file:///a", text: "", mimeType: "text/plain" } },
  }),
  update({ sessionUpdate: "agent_thought_chunk", content: SAID }),
  update({ sessionUpdate: "tool_call", ...TOOL, locations: LOCATIONS }),
  update({ sessionUpdate: "tool_call_update", toolCallId: "c", status: "failed" }),
  update({ sessionUpdate: "plan", entries: [{ content: "do it", priority: "high", status: "pending" }] }),
  update({
    sessionUpdate: "available_commands_update",
    availableCommands: [{ name: "help", description: "helps", input: { hint: "on what" } }],
  }),
  update({ sessionUpdate: "current_mode_update", currentModeId: "m" }),
  update({
    sessionUpdate: "config_option_update",
    configOptions: [
      {
        ...{ id: "model", name: "Model", category: "model", type: "select", currentValue: "a" },
        options: [{ value: "a", name: "A", description: "the first" }],
      },
      {
        ...{ id: "depth", name: "Depth", type: "select", currentValue: "x" },
        options: [{ group: "g", name: "G", options: [{ value: "x", name: "X" }] }],
      },
      { id: "fast", name: "Fast", type: "boolean", currentValue: true },
    ],
  }),
  update({ sessionUpdate: "session_info_update", title: "A title", updatedAt: "2026-01-02T03:04:05Z" }),
  update({ sessionUpdate: "usage_update", used: 1, size: 2, cost: { amount: 0.1, currency: "EUR" } }),
  update({ sessionUpdate: "notice", severity: "info", title: "Note", description: "this" }),
  update({ sessionUpdate: "compaction_update", compactionId: "k", status: "completed", summary: [SAID] }),
  update({ sessionUpdate: "compaction_summary_chunk", compactionId: "k", content: SAID }),
  asks("session/request_permission", {
    sessionId: SESSION,
    toolCall: { ...TOOL, locations: LOCATIONS },
    options: [OPTION],
  }),
  asks("fs/read_text_file", { sessionId: SESSION, path: "/a" }),
  frame("in", { method: "$/cancel_request", params: { requestId: 3 } }),
  frame("in", { method: "elicitation/complete", params: { elicitationId: "e" } }),
];

/** Harmless events that the protocol's JSON schema does not have, or that no client gets. */
export const OTHERS: readonly LogEvent[] = [
  update({ sessionUpdate: "plan_update", plan: { type: "markdown", planId: "p", content: "# do it" } }),
  update({ sessionUpdate: "plan_removed", planId: "p" }),
  update({ sessionUpdate: "subagent_update", sessionId: "t", title: "T", state: { state: "running" } }),
  update({ sessionUpdate: "session_message", messageId: "m", senderSessionId: "s" }),
  update(
    { sessionUpdate: "session_info_update", _meta: { "acp-edge/event": "e", "acp-edge/message": "m" } },
    "gateway",
  ),
  asks("terminal/output", { sessionId: SESSION, terminalId: "t" }),
  answers("in", { stopReason: "end_turn", usage: { totalTokens: 1, inputTokens: 1, outputTokens: 0 } }),
  answers("in", {
    sessionId: SESSION,
    modes: { currentModeId: "m", availableModes: [{ id: "m", name: "M" }] },
    models: { currentModelId: "m", availableModels: [{ modelId: "m", name: "M" }] },
    configOptions: [],
  }),
  answers("in", {
    protocolVersion: 1,
    agentInfo: { name: "a", version: "1" },
    authMethods: [{ id: "l", name: "Log in", description: "here" }],
  }),
  frame("in", { id: 7, error: { code: -32603, message: "It went wrong" } }),
  answers("out", { outcome: { outcome: "selected", optionId: "o" } }),
  answers("out", { action: "decline" }),
  says("initialize", { protocolVersion: 1, clientInfo: { name: "c", version: "1" } }),
  says("authenticate", { methodId: "m" }),
  says("session/new", { cwd: "", additionalDirectories: [], mcpServers: [] }),
  says("session/load", { sessionId: SESSION, cwd: "", mcpServers: [] }),
  says("session/set_mode", { sessionId: SESSION, modeId: "m" }),
  says("session/set_config_option", { sessionId: SESSION, configId: "fast", type: "boolean", value: true }),
  frame("out", { method: "session/cancel", params: { sessionId: SESSION } }),
  note("session.requested", { owner: "user", workspace: "w", agent: "a", request: 1 }),
  note("runtime.connected", { agent: "a", processRequest: 1, delivered: 0 }),
  note("queue.owner.stopped", { code: 1, signal: null, reason: "exit code 1", expected: false }),
  note("turn.failed", { turnId: "t", prompt: 1, reason: "agent_exited", error: { code: 1, message: "m" } }),
  note("permission.requested", { request: 1, toolCall: TOOL, options: [OPTION] }),
  note("permission.responded", {
    request: 1,
    answer: 2,
    outcome: { outcome: "cancelled" },
    subject: "user",
    why: "y",
  }),
  note("client.fs.read", { request: 1, answer: 2, ok: true }),
  note("error", { origin: "agent", code: 1, detailCode: "agent_exited", message: "m" }),
  note("runtime.noise", {}),
  note("vendor.unheard_of", {}),
];
