import { MetaKey } from "../extensions.ts";
import type { Frame } from "../frame.ts";
import type { Dialect } from "./dialect.ts";
import { type Fields, fields, isFields, withMeta, without } from "./message.ts";
import { askPermission } from "./permission.ts";
import { type Translation, translateRequest } from "./requests.ts";

/** Seed 002: the web client of a WebSocket gateway. */
export const seed002: Dialect = { initialize, initialized, fromClient, toClient };

function initialize(params: Fields): Fields {
  const { capabilities, ...rest } = params;
  return { ...rest, protocolVersion: 1, clientCapabilities: params.clientCapabilities ?? capabilities ?? {} };
}

/**
 * `capabilities` is what agents of that form called `agentCapabilities`. Terminals are those of the workspace:
 * its host has them for every agent. Modes belong to a session in canonical ACP, so most agents name none yet.
 */
function initialized(result: Fields, offered: Fields): Fields {
  const agentCapabilities = fields(result.agentCapabilities);
  return {
    ...result,
    protocolVersion: offered.protocolVersion,
    capabilities: { modes: [], terminal: true, extensions: {}, ...agentCapabilities },
  };
}

function fromClient(frame: Frame): Translation {
  return translateRequest(frame, { readBlock: (block) => block });
}

function toClient(raw: string): string[] {
  const message = JSON.parse(raw) as Fields;
  switch (message.method) {
    case "session/update": {
      const params = fields(message.params);
      return [
        JSON.stringify({ ...message, params: { ...params, update: olderUpdate(fields(params.update)) } }),
      ];
    }
    case "session/request_permission":
      return [JSON.stringify(askPermission(message))];
    default:
      return [raw];
  }
}

function olderUpdate(update: Fields): Fields {
  const { sessionUpdate, content, ...rest } = update;
  const tool = sessionUpdate === "tool_call" || sessionUpdate === "tool_call_update";
  if (tool) return { kind: sessionUpdate, ...olderToolCall(rest, sessionUpdate === "tool_call", content) };
  if (content === undefined) return { kind: sessionUpdate, ...kindToMeta(rest) };
  return { kind: sessionUpdate, [isFields(content) ? "delta" : "content"]: content, ...kindToMeta(rest) };
}

/** A new call always has a name and an input; an update has what changed. */
function olderToolCall(call: Fields, isNew: boolean, content: unknown): Fields {
  const { name, title, rawInput, ...rest } = call;
  return {
    ...kindToMeta(without(rest, "toolCallId")),
    toolCallId: call.toolCallId,
    ...(isNew || name !== undefined || title !== undefined ? { name: name ?? title } : {}),
    // A title that is more than the name stays.
    ...(name !== undefined && title !== undefined ? { title } : {}),
    ...(isNew || rawInput !== undefined ? { input: rawInput ?? {} } : {}),
    ...(Array.isArray(content) ? { output: content.map(unwrapped) } : {}),
  };
}

/** Tool content wraps content blocks; diffs and terminals stand for themselves. */
function unwrapped(item: unknown): unknown {
  return isFields(item) && item.type === "content" ? item.content : item;
}

function kindToMeta(update: Fields): Fields {
  const { kind, ...rest } = update;
  return kind === undefined ? rest : withMeta(rest, { [MetaKey.toolKind]: kind });
}
