import type { CLIENT_METHODS } from "@agentclientprotocol/sdk";

/**
 * Methods by their SDK type only: importing the constants would bundle the SDK's schemas into the Worker.
 * A method the SDK does not know does not compile.
 */
type ClientMethod = (typeof CLIENT_METHODS)[keyof typeof CLIENT_METHODS];

/** What an agent asks of files and terminals, by the capability that offers it. */
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

/** Undefined for any other method. */
export function ioOf(method: string): WorkspaceIo | undefined {
  return IO_METHODS.get(method);
}

/** Who serves an agent's files and terminals: the host, where the workspace is, or the clients. */
export type IoServer = "host" | "client";

/** What a client offers to do for agents, by the parameters of its `initialize`. */
export function offeredIo(params: unknown): WorkspaceIo[] {
  const { fs, terminal } = (params as Offer | null | undefined)?.clientCapabilities ?? {};
  const offered: WorkspaceIo[] = [];
  if (fs?.readTextFile === true) offered.push("read");
  if (fs?.writeTextFile === true) offered.push("write");
  if (terminal === true) offered.push("terminal");
  return offered;
}

type Offer = {
  clientCapabilities?: {
    fs?: { readTextFile?: unknown; writeTextFile?: unknown } | null;
    terminal?: unknown;
  } | null;
};
