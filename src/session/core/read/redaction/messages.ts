import { type Allowed, blank, each, members, scalars } from "../../../../protocol/allow-list.ts";
import {
  VISIBLE_IMPLEMENTATION,
  VISIBLE_INITIALIZE_MEMBERS,
} from "../../../../protocol/initialize-result.ts";
import type { FrameEvent } from "../../events/event.ts";
import {
  CONFIG_OPTIONS,
  CONFIG_VALUE,
  CONTENT,
  ERROR,
  ERROR_MARK,
  MODELS,
  MODES,
  OPTIONS,
  OUTCOME,
  TOKENS,
  TOOL_CALL,
} from "../../events/visible-parts.ts";
import { updateOf } from "./updates.ts";

/** The part of a message that a redacted reader sees. */
export function messageOf({ direction, frame, source }: FrameEvent): Allowed {
  const { kind, method = "", value } = frame;
  if (kind === "invalid") return members(scalars("jsonrpc", "id"));
  if (kind === "response") return direction === "in" ? FROM_AGENT_ANSWER : TO_AGENT_ANSWER;
  if (direction === "in" && method === "session/update")
    return message({ params: members({ sessionId: "scalar", update: updateOf(value.params, source) }) });
  const known = (direction === "in" ? FROM_AGENT : TO_AGENT).get(method);
  return message({ params: known ?? members(scalars("sessionId")) });
}

/** The route of a message, which the gateway adds. */
export const ROUTE = {
  ...scalars("connection", "to", "except", "id", "re", "requestId", "stop", "early", "repeats"),
  ...scalars("having", "lacking", "plain", "announcedAt", "terminalsOf"),
  also: each("scalar"),
};

/** A message gets no mark of redaction: JSON-RPC has no member for it. */
function message(allowed: Readonly<Record<string, Allowed>>): Allowed {
  return members({ ...scalars("jsonrpc", "id", "method"), ...allowed }, "");
}

const TERMINAL = members(scalars("sessionId", "terminalId"));

/**
 * Requests and notifications of the agent. Paths are shown, as in the locations of a tool call; contents of files and
 * commands of terminals are not. A form may come from a tool's server, so its text counts as tool data.
 */
const FROM_AGENT: ReadonlyMap<string, Allowed> = new Map([
  ["session/request_permission", members({ sessionId: "scalar", toolCall: TOOL_CALL, options: OPTIONS })],
  ["fs/read_text_file", members(scalars("sessionId", "path"))],
  ["fs/write_text_file", members({ ...scalars("sessionId", "path"), content: blank('""') })],
  ["terminal/create", members({ sessionId: "scalar", command: blank('""') })],
  ["terminal/output", TERMINAL],
  ["terminal/wait_for_exit", TERMINAL],
  ["terminal/kill", TERMINAL],
  ["terminal/release", TERMINAL],
  [
    "elicitation/create",
    members({
      ...scalars("sessionId", "toolCallId", "requestId", "mode", "elicitationId"),
      message: blank('""'),
      requestedSchema: blank('{"type":"object","properties":{}}'),
      url: blank('""'),
    }),
  ],
  ["elicitation/complete", members(scalars("elicitationId"))],
  ["$/cancel_request", members(scalars("requestId"))],
]);

/** The command of an MCP server is tool data. Agents take settings and keys in `_meta`. */
const OPENING = members({
  sessionId: "scalar",
  cwd: blank('""'),
  additionalDirectories: blank("[]"),
  mcpServers: blank("[]"),
});

/** Requests and notifications to the agent. */
const TO_AGENT: ReadonlyMap<string, Allowed> = new Map([
  // A prompt is what a person said, but not the files that are attached to it.
  ["session/prompt", members({ ...scalars("sessionId", "messageId"), prompt: each(CONTENT) })],
  [
    "initialize",
    members({ protocolVersion: "scalar", clientCapabilities: "open", clientInfo: VISIBLE_IMPLEMENTATION }),
  ],
  ["authenticate", members(scalars("methodId"))],
  ["session/new", OPENING],
  ["session/load", OPENING],
  ["session/resume", OPENING],
  ["session/fork", OPENING],
  ["session/list", members(scalars("cursor"))],
  ["session/set_mode", members(scalars("sessionId", "modeId"))],
  ["session/set_model", members(scalars("sessionId", "modelId"))],
  [
    "session/set_config_option",
    members({ ...scalars("sessionId", "configId", "type"), value: CONFIG_VALUE }),
  ],
  ["session/set_title", members(scalars("sessionId", "title"))],
  ["$/cancel_request", members(scalars("requestId"))],
]);

/** A response does not name its method, so this list covers the results of all methods. */
const RESULT = members({
  ...VISIBLE_INITIALIZE_MEMBERS,
  ...scalars("sessionId", "stopReason", "userMessageId", "title"),
  modes: members({ currentModeId: "scalar", availableModes: MODES }),
  models: members({ currentModelId: "scalar", availableModels: MODELS }),
  configOptions: CONFIG_OPTIONS,
  usage: TOKENS,
});

const FROM_AGENT_ANSWER = message({ result: RESULT, error: ERROR });

/** Responses to the agent carry contents of files and output of terminals, and error messages that quote them. */
const TO_AGENT_ANSWER = message({
  result: members({ outcome: OUTCOME, action: "scalar" }),
  error: members({ code: "scalar", message: blank('""') }, ERROR_MARK),
});
