import type { Frame } from "../frame.ts";
import { type Fields, fields, InvalidParams, isFields, text, without, withParams } from "./message.ts";

/**
 * Seed 003, OpenCode and Zed: canonical ACP v1 but for one thing. An MCP server may be
 * `{type: "local", command: ["bun", "x", …]}`. Its initialize does not tell such a client from any other, so
 * these are looked for whenever a session is opened, and only then.
 */

/** The frame with each local server as canonical ACP has it; the same frame if there is none. */
export function withStdioServers(frame: Frame): Frame {
  const params = fields(frame.value.params);
  return hasLocalServer(params.mcpServers)
    ? withParams(frame, { ...params, mcpServers: stdioServers(params.mcpServers) })
    : frame;
}

function hasLocalServer(servers: unknown): boolean {
  return Array.isArray(servers) && servers.some(isLocal);
}

/** A list of servers, the local ones as canonical ACP has them; anything but a list stays as it is. */
export function stdioServers(servers: unknown): unknown {
  return Array.isArray(servers)
    ? servers.map((server) => (isLocal(server) ? stdio(server) : server))
    : servers;
}

function isLocal(server: unknown): server is Fields {
  return isFields(server) && server.type === "local";
}

function stdio(server: Fields): Fields {
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

/** A list of names and values, or an object of them. */
function variables(env: unknown): unknown {
  return isFields(env)
    ? Object.entries(env).map(([name, value]) => ({ name, value: text(value) ?? JSON.stringify(value) }))
    : env;
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
