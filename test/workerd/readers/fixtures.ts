import { exports } from "cloudflare:workers";
import { Client } from "../peers/client.ts";
import { ALL_OF_A_CLIENT, mint } from "../tokens.ts";

export async function ask(
  method: string,
  path: string,
  bearer: string,
  headers: Record<string, string> = {},
  body?: unknown,
): Promise<Response> {
  return exports.default.fetch(`https://edge.test${path}`, {
    method,
    headers: { Authorization: `Bearer ${bearer}`, ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** The token of a link to the session. */
export async function linkTo(workspace: string, session: string, redact = false): Promise<string> {
  const owner = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, sub: "owner" });
  const headers = { "Content-Type": "application/json" };
  const made = await ask("POST", "/api/shares", owner, headers, { session, redact });
  if (made.status !== 201) throw new Error(`${made.status} ${await made.text()}`);
  return ((await made.json()) as { token: string }).token;
}

/** A client on a plain WebSocket with the given token, and the id of its connection. */
export async function connect(
  bearer: string,
  query = "",
  path = "/acp",
): Promise<{ client: Client; connection: string }> {
  const headers = { Upgrade: "websocket", Authorization: `Bearer ${bearer}` };
  const response = await exports.default.fetch(`https://edge.test${path}${query}`, { headers });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  const client = new Client(response.webSocket);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return { client, connection: response.headers.get("Acp-Connection-Id") as string };
}
