import { fileURLToPath } from "node:url";
import type { Stream } from "@agentclientprotocol/sdk";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

/** One connection of a client to an agent through a contender. */
export type Transport = {
  stream: Stream;
  /** Whether messages are compressed, known once connected. */
  compressed(): boolean;
  close(): Promise<void>;
};

/** A running contender: the software between the client and the agent. */
export type Running = {
  connect(): Promise<Transport>;
  stop(): Promise<void>;
  /** The contender's log, shown with a failure. */
  log?(): string;
};

export type Contender = {
  name: string;
  /** `agentState` is where the agent keeps its sessions, for contenders that cannot replay without it. */
  start(agentState?: string): Promise<Running>;
};

const AGENT = fileURLToPath(new URL("../../src/demo-agent/main.ts", import.meta.url));

/** All contenders run this agent. */
export const agentCommand: readonly [string, ...string[]] = [process.execPath, AGENT];

export function agentEnv(agentState?: string): NodeJS.ProcessEnv {
  const { DEMO_AGENT_STATE: _, ...env } = process.env;
  return agentState === undefined ? env : { ...env, DEMO_AGENT_STATE: agentState };
}

/** The client of all contenders that speak WebSocket. It offers compression like a browser; the server decides. */
export function overWebSocket(url: string): Transport {
  let socket: WebSocket | undefined;
  class Socket extends WebSocket {
    constructor(...args: ConstructorParameters<typeof WebSocket>) {
      super(...args);
      socket = this;
    }
  }
  const stream = createWebSocketStream(url, { WebSocket: Socket });
  return { stream, compressed: () => socket?.extensions !== "", close: async () => {} };
}
