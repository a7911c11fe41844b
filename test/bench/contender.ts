import { fileURLToPath } from "node:url";
import type { Stream } from "@agentclientprotocol/sdk";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

/** One connection of a client to an agent, whatever is in between. */
export type Transport = {
  stream: Stream;
  /** Whether the messages travel compressed, once connected. */
  compressed(): boolean;
  close(): Promise<void>;
};

/** A contender that is up: what is between the client and the agent. */
export type Running = {
  connect(): Promise<Transport>;
  stop(): Promise<void>;
  /** What it has to say about a failure. */
  log?(): string;
};

export type Contender = {
  name: string;
  /** `agentState`: where the agent is to keep its sessions, for those who cannot replay without its help. */
  start(agentState?: string): Promise<Running>;
};

const AGENT = fileURLToPath(new URL("../../src/demo-agent/main.ts", import.meta.url));

/** The same agent for all. */
export const agentCommand: readonly [string, ...string[]] = [process.execPath, AGENT];

export function agentEnv(agentState?: string): NodeJS.ProcessEnv {
  const { DEMO_AGENT_STATE: _, ...env } = process.env;
  return agentState === undefined ? env : { ...env, DEMO_AGENT_STATE: agentState };
}

/** The same client for all who speak WebSocket. Like a browser it offers compression; the server decides. */
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
