import { notification } from "../errors.ts";
import { ExtensionMethod, MetaKey } from "../extensions.ts";
import type { Frame } from "../frame.ts";
import { type JsonObject, recordOf, textOf } from "../json-value.ts";
import { plainBlock, readBlock, toolBlock } from "./container-blocks.ts";
import type { Dialect, KnownOfAgent } from "./dialect.ts";
import { InvalidParams, withMeta, without } from "./message.ts";
import { askPermission } from "./permission.ts";
import { openingParams, type Translation, translateRequest } from "./requests.ts";

/** The data model of an ACP container: an update is a list of content blocks and a status. */
export const containerDataModel: Dialect = { initialize, initialized, fromClient, toClient };

type Status = "thinking" | "working" | "completed" | "error";

/** Capabilities of every workspace behind this gateway, whatever its agent. */
const CAPABILITIES = {
  editWorkspace: true,
  filesRead: true,
  filesWrite: true,
  sessionPersistence: true,
  streamingUpdates: true,
  githubIntegration: false,
};

/** Whether capabilities have the names that only this dialect uses. */
export function hasContainerNames(capabilities: unknown): boolean {
  const names = recordOf(capabilities);
  return "editWorkspace" in names || "filesRead" in names || "filesWrite" in names;
}

function initialize(params: JsonObject): JsonObject {
  const { capabilities, ...rest } = params;
  const { editWorkspace, filesRead, filesWrite, ...others } = recordOf(
    params.clientCapabilities ?? capabilities,
  );
  const fs = {
    readTextFile: filesRead === true,
    writeTextFile: filesWrite === true || editWorkspace === true,
    ...recordOf(others.fs),
  };
  return { ...rest, protocolVersion: 1, clientCapabilities: { ...others, fs } };
}

function initialized(result: JsonObject, offered: JsonObject, { agentName }: KnownOfAgent): JsonObject {
  const { agentInfo } = result;
  return {
    ...result,
    agentInfo: agentName === undefined ? agentInfo : { ...recordOf(agentInfo), name: agentName },
    protocolVersion: offered.protocolVersion,
    agentCapabilities: { ...CAPABILITIES, ...recordOf(result.agentCapabilities) },
  };
}

function fromClient(frame: Frame): Translation {
  return translateRequest(frame, { readBlock, open });
}

function open(params: JsonObject): JsonObject {
  const { mode, ...rest } = params;
  if (mode === undefined) return openingParams(params);
  if (mode !== "conversation" && mode !== "development")
    throw new InvalidParams('params.mode must be "conversation" or "development"');
  return openingParams(withMeta(rest, { [MetaKey.sessionMode]: mode }));
}

function toClient(raw: string, sessionId: string): string[] {
  const message = JSON.parse(raw) as JsonObject;
  switch (message.method) {
    case "session/update":
      return [update(message)];
    case "session/request_permission":
      return [JSON.stringify(askPermission(message))];
    case ExtensionMethod.turnEnded:
      return turnEnd(recordOf(message.params), sessionId);
    case undefined:
      return [...turnEnd(message, sessionId), raw];
    default:
      return [raw];
  }
}

/**
 * The last update of a turn. The prompting client gets it before its response, the other clients get it alone. A failed
 * request of any kind has such an update before its error.
 */
function turnEnd({ result, error }: JsonObject, sessionId: string): string[] {
  const say = (content: JsonObject[], status: Status) => [
    notification("session/update", { sessionId, content, status }),
  ];
  if (error !== undefined) {
    const { message, ...metadata } = recordOf(error);
    return say([{ type: "text", content: textOf(message) ?? "", metadata }], "error");
  }
  return typeof recordOf(result).stopReason === "string" ? say([], "completed") : [];
}

/** This dialect has updates for the progress of a turn only. Any other update travels under an extension method. */
function update(message: JsonObject): string {
  const params = recordOf(message.params);
  const shown = blocks(recordOf(params.update));
  if (!shown) return JSON.stringify({ ...message, method: "_session/update" });
  return JSON.stringify({ ...message, params: { ...without(params, "update"), ...shown } });
}

function blocks(update: JsonObject): { content: JsonObject[]; status: Status } | undefined {
  const { sessionUpdate, content, ...rest } = update;
  switch (sessionUpdate) {
    case "agent_thought_chunk":
      return { content: [thought(plainBlock(content, rest))], status: "thinking" };
    case "agent_message_chunk":
      return { content: [plainBlock(content, rest)], status: "working" };
    case "user_message_chunk":
      return { content: [plainBlock(content, { ...rest, role: "user" })], status: "working" };
    case "tool_call":
    case "tool_call_update": {
      const { title, ...metadata } = rest;
      const head = { type: "text", content: textOf(title) ?? "", metadata: { sessionUpdate, ...metadata } };
      const output = Array.isArray(content) ? content : [];
      return {
        content: [head, ...output.map((item) => toolBlock(item, { toolCallId: rest.toolCallId }))],
        status: "working",
      };
    }
    case "plan": {
      const entries = Array.isArray(rest.entries) ? rest.entries.map(recordOf) : [];
      const steps = entries.map(
        ({ status, content: step }) => `${status === "completed" ? "[x]" : "[ ]"} ${textOf(step) ?? ""}`,
      );
      return {
        content: [{ type: "text", content: steps.join("\n"), metadata: { sessionUpdate, ...rest } }],
        status: "working",
      };
    }
    default:
      return undefined;
  }
}

function thought(block: JsonObject): JsonObject {
  return block.type === "text" ? { ...block, type: "thought" } : block;
}
