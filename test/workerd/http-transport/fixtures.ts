import { runInDurableObject } from "cloudflare:test";
import { readAttachment } from "../../../src/durable/attachments.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import type { Json } from "../../fixtures/json.ts";
import { connectionStub, workspaceName } from "../fixtures.ts";
import type { Agent } from "../peers/agent.ts";
import { Host } from "../peers/host.ts";
import { type EventReader, HttpPeer, type StreamEvent } from "../peers/http-client.ts";

export const UNKNOWN = crypto.randomUUID();
export const LONG = "x".repeat(DEFAULT_LIMITS.idChars + 1);

type Opened = {
  peer: HttpPeer;
  own: EventReader;
  host: Host;
  agent: Agent;
  sessionId: string;
  workspace: string;
};

/** A client over HTTP with a session and the open stream of its connection. */
export async function openSession(): Promise<Opened> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  const peer = await HttpPeer.open(workspace);
  const own = await peer.stream();
  return { ...(await newSession(peer, own, host)), workspace };
}

export function resultOf(events: StreamEvent[]): Json {
  return events.at(-1)?.message.result as Json;
}

export async function newSession(peer: HttpPeer, own: EventReader, host: Host) {
  const id = await peer.call("session/new", { cwd: "/elsewhere", mcpServers: [] });
  const agent = await host.agent();
  await agent.openSession();
  const sessionId = resultOf(await own.until(id)).sessionId as string;
  return { peer, own, host, agent, sessionId };
}

/** How far the session's stream has been sent. */
export function placeOf(peer: HttpPeer, sessionId: string): Promise<number> {
  return runInDurableObject(connectionStub(peer.connection), (_, state) => {
    const readers = state.getWebSockets().map((ws) => readAttachment(ws, "stream-reader"));
    return readers.find((reader) => reader?.stream === sessionId)?.cursor?.seq ?? 0;
  });
}

export const permission = (id: number) =>
  JSON.stringify({
    jsonrpc: "2.0",
    id,
    method: "session/request_permission",
    params: { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options: [] },
  });
