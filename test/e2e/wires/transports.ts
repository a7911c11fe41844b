/** The ways from a client to the gateway. */
import { fileURLToPath } from "node:url";
import type { Reachable } from "../client.ts";
import { httpWire } from "./http-wire.ts";
import { processWire } from "./process-wire.ts";
import { socketWire } from "./socket-wire.ts";
import type { Wire, WireEvents } from "./wire.ts";

const COMMAND = fileURLToPath(new URL("../../../src/cli/command/main.ts", import.meta.url));

export type Connect = (events: WireEvents) => Promise<Wire>;

export const TRANSPORTS = {
  "stdio bridge": (gateway: Reachable, agent?: string) => async (events: WireEvents) =>
    processWire(
      {
        command: [process.execPath, COMMAND, "connect", gateway.wsUrl, ...(agent ? ["--agent", agent] : [])],
        env: { ...process.env, ACP_EDGE_TOKEN: gateway.token },
      },
      events,
    ),
  WebSocket: (gateway: Reachable, agent?: string) => (events: WireEvents) =>
    socketWire(`${gateway.wsUrl}${query({ token: gateway.token, agent })}`, events),
  "Streamable HTTP": (gateway: Reachable, agent?: string) => async (events: WireEvents) =>
    httpWire(`${gateway.url}/acp${query({ agent })}`, gateway.token, events),
} satisfies Record<string, (gateway: Reachable, agent?: string) => Connect>;

export type Transport = keyof typeof TRANSPORTS;

function query(values: Record<string, string | undefined>): string {
  const pairs = Object.entries(values).flatMap(([name, value]) => (value ? [`${name}=${value}`] : []));
  return pairs.length > 0 ? `?${pairs.join("&")}` : "";
}
