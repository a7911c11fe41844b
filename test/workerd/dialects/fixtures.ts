import { exports } from "cloudflare:workers";
import type { Json } from "../../fixtures/json.ts";
import { events } from "../fixtures.ts";
import type { Agent } from "../peers/agent.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { token } from "../tokens.ts";

export const json = (text: string) => JSON.parse(text) as Json;

/** A printed message with the session id of this test. */
export const forSession = (printed: string, sessionId: string) =>
  printed.replaceAll("session-abc123", sessionId).replaceAll("session-uuid", sessionId);

/** A host whose agents have these names, the first of which is the default, and this answer to initialize. */
export async function hostOf(
  workspace: string,
  names: string[],
  initialize: Json = { agentCapabilities: {} },
): Promise<Host> {
  const agents = names.map((id, i) => ({ id, name: id, default: i === 0 }));
  const host = await Host.join(workspace, { initialize: false, agents });
  for (const id of names)
    host.send(JSON.stringify({ t: "agent", id, initialize: { protocolVersion: 1, ...initialize } }));
  return host;
}

export async function agentSocket(workspace: string): Promise<Client> {
  const url = `https://edge.test/agent/ws?token=${await token({ workspace })}`;
  const response = await exports.default.fetch(url, { headers: { Upgrade: "websocket" } });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  return new Client(response.webSocket);
}

/** Sends a printed message unchanged and takes messages up to its answer. */
export async function sendPrinted(
  client: Client,
  printed: string,
): Promise<{ response: Json; before: Json[] }> {
  client.send(printed);
  return client.until(json(printed).id);
}

export function fromAgent(agent: Agent, update: Json): void {
  const params = { sessionId: "agent-session", update };
  agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params }));
}

export async function openPrinted(
  client: Client,
  host: Host,
  initialize: string,
  newSession: string,
  result: Json = {},
) {
  const initialized = (await sendPrinted(client, initialize)).response;
  const opening = sendPrinted(client, newSession);
  const agent = await host.agent();
  const request = await agent.line();
  agent.answer(request, { sessionId: "agent-session", ...result });
  const { response } = await opening;
  const { sessionId } = response.result as { sessionId: string };
  return { initialized, agent, request, response, sessionId };
}

/** The client frames of the log, as every reader sees them. */
export async function clientFrames(workspace: string, sessionId: string): Promise<Json[]> {
  const all = await events(workspace, sessionId);
  return all
    .filter(({ kind, source }) => kind === "acp.frame" && source === "client")
    .map(({ payload }) => (payload as { message: Json }).message);
}

export const text = (words: string) => ({ type: "text", text: words });
export const capabilities = { agentCapabilities: { modes: ["ask", "code", "architect"] } };
