import { type Frame, paramsOf } from "../frame.ts";
import { isRecord, type JsonObject, textOf } from "../json-value.ts";
import { InvalidParams, without, withParams } from "./message.ts";

/**
 * The form of MCP servers that OpenCode and Zed use, `{type: "local", command: ["bun", "x", …]}`, in otherwise
 * canonical ACP v1. Their `initialize` does not give them away, so every request that opens a session is searched for
 * such servers.
 */

/** The frame with each local server in canonical form; the frame itself if it has none. */
export function withStdioServers(frame: Frame): Frame {
  const params = paramsOf(frame);
  return hasLocalServer(params.mcpServers)
    ? withParams(frame, { ...params, mcpServers: stdioServers(params.mcpServers) })
    : frame;
}

function hasLocalServer(servers: unknown): boolean {
  return Array.isArray(servers) && servers.some(isLocal);
}

/** A list of servers with the local ones in canonical form. A value that is no list stays as it is. */
export function stdioServers(servers: unknown): unknown {
  return Array.isArray(servers)
    ? servers.map((server) => (isLocal(server) ? stdio(server) : server))
    : servers;
}

function isLocal(server: unknown): server is JsonObject {
  return isRecord(server) && server.type === "local";
}

function stdio(server: JsonObject): JsonObject {
  const words = typeof server.command === "string" ? [server.command] : server.command;
  const args = server.args ?? [];
  if (!isTexts(words) || words[0] === undefined)
    throw new InvalidParams("command of a local MCP server must be a list of strings that names a program");
  if (!isTexts(args)) throw new InvalidParams("args of a local MCP server must be a list of strings");
  const [command, ...first] = words;
  return {
    ...without(server, "type"),
    name: server.name ?? command,
    command,
    args: [...first, ...args],
    env: variables(server.env ?? []),
  };
}

/** Canonical variables are a list of names and values; local servers may have an object. */
function variables(env: unknown): unknown {
  return isRecord(env)
    ? Object.entries(env).map(([name, value]) => ({ name, value: textOf(value) ?? JSON.stringify(value) }))
    : env;
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
