import { notification } from "../errors.ts";
import { ExtensionMethod, MetaKey } from "../extensions.ts";
import type { Frame } from "../frame.ts";
import { plainBlock, readBlock, toolBlock } from "./container-blocks.ts";
import type { Dialect } from "./dialect.ts";
import { type Fields, fields, InvalidParams, text, withMeta, without } from "./message.ts";
import { askPermission } from "./permission.ts";
import { openingParams, type Translation, translateRequest } from "./requests.ts";

/** Seed 000: the data model of an ACP container, where an update is a list of blocks and a status. */
export const seed000: Dialect = { initialize, initialized, fromClient, toClient };

type Status = "thinking" | "working" | "completed" | "error";

/** What every workspace behind this gateway can do, whatever its agent. */
const CAPABILITIES = {
  editWorkspace: true,
  filesRead: true,
  filesWrite: true,
  sessionPersistence: true,
  streamingUpdates: true,
  githubIntegration: false,
};

export function hasOwnNames(capabilities: unknown): boolean {
  const names = fields(capabilities);
  return "editWorkspace" in names || "filesRead" in names || "filesWrite" in names;
}

function initialize(params: Fields): Fields {
  const { capabilities, ...rest } = params;
  const { editWorkspace, filesRead, filesWrite, ...others } = fields(
    params.clientCapabilities ?? capabilities,
  );
  const fs = {
    readTextFile: filesRead === true,
    writeTextFile: filesWrite === true || editWorkspace === true,
    ...fields(others.fs),
  };
  return { ...rest, protocolVersion: 1, clientCapabilities: { ...others, fs } };
}

function initialized(result: Fields, offered: Fields): Fields {
  return {
    ...result,
    protocolVersion: offered.protocolVersion,
    agentCapabilities: { ...CAPABILITIES, ...fields(result.agentCapabilities) },
  };
}

function fromClient(frame: Frame): Translation {
  return translateRequest(frame, { readBlock, open });
}

function open(params: Fields): Fields {
  const { mode, ...rest } = params;
  if (mode === undefined) return openingParams(params);
  if (mode !== "conversation" && mode !== "development")
    throw new InvalidParams('params.mode must be "conversation" or "development"');
  return openingParams(withMeta(rest, { [MetaKey.sessionMode]: mode }));
}

function toClient(raw: string, sessionId: string): string[] {
  const message = JSON.parse(raw) as Fields;
  switch (message.method) {
    case "session/update":
      return [update(message)];
    case "session/request_permission":
      return [JSON.stringify(askPermission(message))];
    case ExtensionMethod.turnEnded:
      return turnEnd(fields(message.params), sessionId);
    case undefined:
      return [...turnEnd(message, sessionId), raw];
    default:
      return [raw];
  }
}

/**
 * The end of a turn is told before the prompt's response, and to those who do not get that; a request that failed,
 * before its error.
 */
function turnEnd({ result, error }: Fields, sessionId: string): string[] {
  const say = (content: Fields[], status: Status) => [
    notification("session/update", { sessionId, content, status }),
  ];
  if (error !== undefined) {
    const { message, ...metadata } = fields(error);
    return say([{ type: "text", content: text(message) ?? "", metadata }], "error");
  }
  return typeof fields(result).stopReason === "string" ? say([], "completed") : [];
}

/** An update that is no progress of a turn has no place in this contract: it goes by an extension's name. */
function update(message: Fields): string {
  const params = fields(message.params);
  const shown = blocks(fields(params.update));
  if (!shown) return JSON.stringify({ ...message, method: "_session/update" });
  return JSON.stringify({ ...message, params: { ...without(params, "update"), ...shown } });
}

function blocks(update: Fields): { content: Fields[]; status: Status } | undefined {
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
      const head = { type: "text", content: text(title) ?? "", metadata: { sessionUpdate, ...metadata } };
      const output = Array.isArray(content) ? content : [];
      return {
        content: [head, ...output.map((item) => toolBlock(item, { toolCallId: rest.toolCallId }))],
        status: "working",
      };
    }
    case "plan": {
      const entries = Array.isArray(rest.entries) ? rest.entries.map(fields) : [];
      const steps = entries.map(
        ({ status, content: step }) => `${status === "completed" ? "[x]" : "[ ]"} ${text(step) ?? ""}`,
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

function thought(block: Fields): Fields {
  return block.type === "text" ? { ...block, type: "thought" } : block;
}
