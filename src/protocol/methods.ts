import type { CLIENT_METHODS } from "@agentclientprotocol/sdk";
import { isReservedMethod } from "./extensions.ts";
import { recordOf } from "./json-value.ts";

/**
 * The methods of clients, from the SDK's types: importing the SDK's constants would bundle its schemas into the Worker.
 * A method that the SDK does not know does not compile.
 */
type ClientMethod = (typeof CLIENT_METHODS)[keyof typeof CLIENT_METHODS];

/** The agent's access to files and terminals, by the client capability that offers it. */
export type WorkspaceIo = "read" | "write" | "terminal";

const IO_METHODS: ReadonlyMap<string, WorkspaceIo> = new Map<ClientMethod, WorkspaceIo>([
  ["fs/read_text_file", "read"],
  ["fs/write_text_file", "write"],
  ["terminal/create", "terminal"],
  ["terminal/output", "terminal"],
  ["terminal/wait_for_exit", "terminal"],
  ["terminal/kill", "terminal"],
  ["terminal/release", "terminal"],
]);

/** The access that a method needs; undefined for a method that needs none. */
export function ioOf(method: string): WorkspaceIo | undefined {
  return IO_METHODS.get(method);
}

/** Whether a method claims to be about files or terminals, and the gateway cannot confine its paths. */
export function isUnknownIo(method: string): boolean {
  return /^(?:fs|terminal)\//i.test(method) && !IO_METHODS.has(method);
}

/** Requests of clients to the agent's program, which name no session. The agent's capabilities say whether it has them. */
const PROCESS_METHODS: ReadonlySet<string> = new Set([
  "authenticate",
  "logout",
  "auth/status",
  "providers/list",
  "providers/set",
  "providers/disable",
]);

/** Whether a message that names no session is for the agent's program: a method above, or one that ACP does not know. */
export function isForProcess(method: string): boolean {
  return PROCESS_METHODS.has(method) || (method.startsWith("_") && !isReservedMethod(method));
}

/** Whether the method lets a client log in to the agent, or out of it. */
export function isLogin(method: string): boolean {
  return method === "authenticate" || method === "logout";
}

/**
 * Whether a method belongs to MCP over ACP. The gateway has no way for it: of several clients only one has the server
 * that the agent means.
 */
export function isMcpMessage(method: string): boolean {
  return method.startsWith("mcp/");
}

/** The side that serves an agent's files and terminals: the host, which has the workspace, or the clients. */
export type IoServer = "host" | "client";

/** The access that a client offers to agents, from the parameters of its `initialize`. */
export function offeredIo(params: unknown): WorkspaceIo[] {
  const { fs, terminal } = recordOf(recordOf(params).clientCapabilities);
  const { readTextFile, writeTextFile } = recordOf(fs);
  const offered: WorkspaceIo[] = [];
  if (readTextFile === true) offered.push("read");
  if (writeTextFile === true) offered.push("write");
  if (terminal === true) offered.push("terminal");
  return offered;
}
