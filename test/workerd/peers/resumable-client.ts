import { env, exports } from "cloudflare:workers";
import { expect } from "vitest";
import {
  joinMessage,
  RESUMABLE,
  readGatewayHead,
  splitMessage,
} from "../../../src/protocol/resumable-wire.ts";
import type { Json } from "../../fixtures/json.ts";
import { token } from "../tokens.ts";
import { Peer } from "./peer.ts";

/** A client of the resumable wire. It keeps the state such a client needs, and acknowledges when the test says so. */
export class Resumable {
  readonly workspace: string;
  /** Further query parameters. */
  readonly query: string;
  connection = "";
  received = 0;
  readonly read: Json[] = [];
  readonly cursors: Record<string, string> = {};
  #own = 0;
  #chars = 0;
  #sent = 0;
  #socket: Peer | undefined;
  #welcome = false;

  constructor(workspace: string, query = "") {
    this.workspace = workspace;
    this.query = query;
  }

  static async open(
    workspace: string,
    {
      query = "",
      params = { protocolVersion: 1, clientCapabilities: {} },
      bearer,
    }: { query?: string; params?: Json; bearer?: string | undefined } = {},
  ): Promise<Resumable> {
    const client = new Resumable(workspace, query);
    client.bearer = bearer;
    await client.dial();
    await client.request("initialize", params);
    return client;
  }

  /** The token, where a test needs a certain one. */
  bearer: string | undefined;

  async upgrade(subject = "someone", connection = this.connection): Promise<Response> {
    const bearer = this.bearer ?? (await token({ workspace: this.workspace, subject }));
    return exports.default.fetch(`https://edge.test/acp?workspace=${this.workspace}${this.query}`, {
      headers: {
        Upgrade: "websocket",
        Authorization: `Bearer ${bearer}`,
        "Sec-WebSocket-Protocol": RESUMABLE,
        ...(connection !== "" && { "Acp-Connection-Id": connection }),
      },
    });
  }

  async dial(): Promise<void> {
    const response = await this.upgrade();
    expect(response.status).toBe(101);
    expect(response.headers.get("Sec-WebSocket-Protocol")).toBe(RESUMABLE);
    this.#socket = new Peer(response.webSocket as WebSocket);
    this.#chars = 0;
    this.peer.send(joinMessage({ t: "hello", own: this.#own, cursors: this.cursors }));
    this.#welcome = false;
    await this.until(() => this.#welcome);
    expect(this.connection).toBe(response.headers.get("Acp-Connection-Id"));
  }

  get peer(): Peer {
    return this.#socket as Peer;
  }

  /** Sends frames under the next numbers, or under earlier ones again. */
  send(frames: Json[], first = this.#sent + 1): void {
    this.#sent = Math.max(this.#sent, first + frames.length - 1);
    const lines = frames.map((frame) => JSON.stringify({ jsonrpc: "2.0", ...frame }));
    this.peer.send(joinMessage({ t: "lines", first }, lines));
  }

  async request(method: string, params: Json): Promise<Json> {
    const id = `r${this.#sent + 1}`;
    this.send([{ id, method, params }]);
    await this.until(() => this.answers(id).length > 0);
    return this.answers(id)[0] as Json;
  }

  answers(id: string): Json[] {
    return this.read.filter((frame) => frame.id === id && !("method" in frame));
  }

  /** Takes messages until the condition holds. */
  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await this.take();
  }

  async take(): Promise<void> {
    const text = await this.peer.take();
    const { head, lines } = splitMessage(text);
    const said = readGatewayHead(head);
    if (!said) throw new Error(`Not understood: ${text}`);
    if (said.t !== "page") this.received = said.received;
    if (said.t === "welcome") {
      this.connection = said.connection;
      this.#welcome = true;
    }
    if (said.t !== "page") return;
    if (said.of === "") this.#own = Number(said.at);
    else this.cursors[said.of] = said.at;
    this.#chars += text.length;
    this.read.push(...lines.map((line) => JSON.parse(line) as Json));
  }

  /** Forgets the connection's own messages after the first, as if they had not arrived. */
  forgetOwn(): void {
    this.#own = 1;
  }

  acknowledge(): void {
    this.peer.send(joinMessage({ t: "ack", chars: this.#chars, own: this.#own }));
  }

  get object() {
    return env.ACP_CONNECTION_DO.getByName(this.connection);
  }
}
