import { MetaKey } from "../extensions.ts";
import type { Frame } from "../frame.ts";
import { isRecord, type JsonObject, recordOf } from "../json-value.ts";
import type { Dialect, KnownOfAgent } from "./dialect.ts";
import { withMeta, without } from "./message.ts";
import { askPermission } from "./permission.ts";
import { type Translation, translateRequest } from "./requests.ts";

/** The web client of a WebSocket gateway: canonical ACP with other names. */
export const webGateway: Dialect = { initialize, initialized, fromClient, toClient };

function initialize(params: JsonObject): JsonObject {
  const { capabilities, ...rest } = params;
  return { ...rest, protocolVersion: 1, clientCapabilities: params.clientCapabilities ?? capabilities ?? {} };
}

/**
 * `capabilities` is this dialect's name for `agentCapabilities`. The workspace's host has terminals for every agent.
 * Canonical modes belong to a session, so they are those of the agent's last session in the workspace.
 */
function initialized(result: JsonObject, offered: JsonObject, { modes = [] }: KnownOfAgent): JsonObject {
  const agentCapabilities = recordOf(result.agentCapabilities);
  return {
    ...result,
    protocolVersion: offered.protocolVersion,
    capabilities: { modes, terminal: true, extensions: {}, ...agentCapabilities },
  };
}

function fromClient(frame: Frame): Translation {
  return translateRequest(frame, { readBlock: (block) => block });
}

function toClient(raw: string): string[] {
  const message = JSON.parse(raw) as JsonObject;
  switch (message.method) {
    case "session/update": {
      const params = recordOf(message.params);
      return [
        JSON.stringify({ ...message, params: { ...params, update: olderUpdate(recordOf(params.update)) } }),
      ];
    }
    case "session/request_permission":
      return [JSON.stringify(askPermission(message))];
    default:
      return [raw];
  }
}

function olderUpdate(update: JsonObject): JsonObject {
  const { sessionUpdate, content, ...rest } = update;
  const tool = sessionUpdate === "tool_call" || sessionUpdate === "tool_call_update";
  if (tool) return { kind: sessionUpdate, ...olderToolCall(rest, sessionUpdate === "tool_call", content) };
  if (content === undefined) return { kind: sessionUpdate, ...kindToMeta(rest) };
  return { kind: sessionUpdate, [isRecord(content) ? "delta" : "content"]: content, ...kindToMeta(rest) };
}

/** A new call always has a name and an input. An update has the members that changed. */
function olderToolCall(call: JsonObject, isNew: boolean, content: unknown): JsonObject {
  const { name, title, rawInput, ...rest } = call;
  return {
    ...kindToMeta(without(rest, "toolCallId")),
    toolCallId: call.toolCallId,
    ...(isNew || name !== undefined || title !== undefined ? { name: name ?? title } : {}),
    // A title beside a name stays a title.
    ...(name !== undefined && title !== undefined ? { title } : {}),
    ...(isNew || rawInput !== undefined ? { input: rawInput ?? {} } : {}),
    ...(Array.isArray(content) ? { output: content.map(unwrapped) } : {}),
  };
}

/** Tool content wraps content blocks, but not diffs and terminals. */
function unwrapped(item: unknown): unknown {
  return isRecord(item) && item.type === "content" ? item.content : item;
}

function kindToMeta(update: JsonObject): JsonObject {
  const { kind, ...rest } = update;
  return kind === undefined ? rest : withMeta(rest, { [MetaKey.toolKind]: kind });
}
