import { exports } from "cloudflare:workers";
import type { Json } from "../../fixtures/json.ts";
import { token } from "../tokens.ts";
import { Peer } from "./peer.ts";

/** The capabilities of a client that can put any question to its user. */
const ASKS_QUESTIONS = { elicitation: { form: {}, url: {} } };

/** An ACP client that sees every message in order. */
export class Client extends Peer {
  #nextId = 0;

  static async open(
    workspace: string,
    query = "",
    tenant = "acme",
    claims: { scopes?: string[]; subject?: string } = {},
    clientCapabilities: object = ASKS_QUESTIONS,
  ): Promise<Client> {
    const peer = await Client.raw(workspace, query, tenant, claims);
    await peer.request("initialize", { protocolVersion: 1, clientCapabilities });
    return peer;
  }

  static async raw(
    workspace: string,
    query = "",
    tenant = "acme",
    claims: { scopes?: string[]; subject?: string } = {},
  ): Promise<Client> {
    const response = await Client.upgrade(workspace, query, tenant, claims);
    if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
    return new Client(response.webSocket);
  }

  static async upgrade(
    workspace: string,
    query = "",
    tenant = "acme",
    claims: { scopes?: string[]; subject?: string } = {},
  ): Promise<Response> {
    const bearer = await token({ workspace, tenant, ...claims });
    return exports.default.fetch(`https://edge.test/acp?workspace=${workspace}${query}`, {
      headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
    });
  }

  call(method: string, params: unknown): number {
    const id = this.#nextId++;
    this.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return id;
  }

  notify(method: string, params: unknown): void {
    this.send(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  /** Sends a request and takes messages up to its response. */
  async request(method: string, params: unknown): Promise<{ response: Json; before: Json[] }> {
    return this.until(this.call(method, params));
  }

  async until(id: unknown): Promise<{ response: Json; before: Json[] }> {
    const before: Json[] = [];
    for (;;) {
      const message = await this.takeJson();
      if (message.id === id && !("method" in message)) return { response: message, before };
      before.push(message);
    }
  }

  async newSession(): Promise<string> {
    const { response } = await this.request("session/new", { cwd: "/somewhere/else", mcpServers: [] });
    return (response.result as { sessionId: string }).sessionId;
  }
}
