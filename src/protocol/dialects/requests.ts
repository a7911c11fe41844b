import { MetaKey } from "../extensions.ts";
import { type Frame, paramsOf } from "../frame.ts";
import { isRecord, type JsonObject } from "../json-value.ts";
import { fileUri, pathOf } from "./file-uri.ts";
import { stdioServers } from "./local-mcp-servers.ts";
import { InvalidParams, withMeta, without, withParams } from "./message.ts";

/** Requests of clients, from the older forms to canonical ACP. */

/** Reads one prompt block of a dialect into a canonical block. Throws InvalidParams. */
export type ReadBlock = (block: unknown) => unknown;

/**
 * Parameters that open a session, new or again. The host puts every session into the root of its workspace, whatever
 * directory the client names, so a client that names no directory loses nothing.
 */
export function openingParams(params: JsonObject): JsonObject {
  const { workspaceUri } = params;
  const path = workspaceUri === undefined || workspaceUri === null ? undefined : pathOf(workspaceUri);
  if (workspaceUri !== undefined && workspaceUri !== null && path === undefined)
    throw new InvalidParams("params.workspaceUri must be a file:// URI");
  return {
    ...without(params, "workspaceUri"),
    cwd: params.cwd ?? path ?? "/",
    mcpServers: stdioServers(params.mcpServers ?? []),
  };
}

function promptParams(params: JsonObject, readBlock: ReadBlock): JsonObject {
  const { name, content, rest } = promptContent(params);
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
  if (!Array.isArray(blocks))
    throw new InvalidParams(`params.${name} must be a string or a list of content blocks`);
  const { contextFiles, ...others } = rest;
  const prompt = [
    ...(typeof content === "string" ? blocks : blocks.map(readBlock)),
    ...links(contextFiles ?? []),
  ];
  return { ...others, prompt };
}

/** A prompt's content, the name of its member, and the other parameters. */
function promptContent(params: JsonObject): { name: string; content: unknown; rest: JsonObject } {
  if (params.prompt !== undefined)
    return { name: "prompt", content: params.prompt, rest: without(params, "prompt") };
  if (params.message === undefined)
    return { name: "content", content: params.content, rest: without(params, "content") };
  const {
    role = "user",
    content,
    ...more
  } = isRecord(params.message) ? params.message : { content: params.message };
  if (role !== "user") throw new InvalidParams('params.message.role must be "user"');
  const rest = without(params, "message");
  return {
    name: "message.content",
    content,
    rest: Object.keys(more).length === 0 ? rest : withMeta(rest, { [MetaKey.promptMessage]: more }),
  };
}

function links(files: unknown): JsonObject[] {
  if (!Array.isArray(files) || !files.every((file) => typeof file === "string"))
    throw new InvalidParams("params.contextFiles must be a list of paths");
  return files.map((file: string) => link(file));
}

export function link(file: string): JsonObject {
  const name = file.split("/").findLast((part) => part !== "") ?? file;
  return { type: "resource_link", uri: fileUri(file), name };
}

function setModeParams(params: JsonObject): JsonObject {
  return params.modeId === undefined && params.mode !== undefined
    ? { ...without(params, "mode"), modeId: params.mode }
    : params;
}

/** The answer to a permission request: the chosen option by its kind. */
function permissionAnswer(params: JsonObject): { requestId: string; kind: string } {
  const { requestId, response } = params;
  if (typeof requestId !== "string") throw new InvalidParams("params.requestId must be a string");
  if (typeof response !== "string" || !PERMISSION_KINDS.has(response))
    throw new InvalidParams(`params.response must be one of ${[...PERMISSION_KINDS].join(", ")}`);
  return { requestId, kind: response };
}

const PERMISSION_KINDS: ReadonlySet<string> = new Set([
  "allow_once",
  "allow_always",
  "reject_once",
  "reject_always",
]);

/** A client's frame in canonical ACP, or the answer to a permission request. */
export type Translation = { frame: Frame } | { permission: { requestId: string; kind: string } };

/** Requests that open a session have their parameters in common. */
const OPENING: ReadonlySet<string> = new Set([
  "session/new",
  "session/load",
  "session/resume",
  "session/fork",
]);

/** Translates one frame of a client. Throws InvalidParams. A frame of any other method keeps its text. */
export function translateRequest(
  frame: Frame,
  { readBlock, open = openingParams }: { readBlock: ReadBlock; open?: (params: JsonObject) => JsonObject },
): Translation {
  const params = paramsOf(frame);
  const { method } = frame;
  if (method === undefined) return { frame };
  if (OPENING.has(method)) return { frame: withParams(frame, open(params)) };
  switch (method) {
    case "session/prompt":
      return { frame: withParams(frame, promptParams(params, readBlock)) };
    case "session/set_mode":
      return { frame: withParams(frame, setModeParams(params)) };
    case "session/respond_to_permission":
      return { permission: permissionAnswer(params) };
    default:
      return { frame };
  }
}
