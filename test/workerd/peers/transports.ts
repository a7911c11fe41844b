import { exports } from "cloudflare:workers";
import { vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { texts } from "../fixtures.ts";
import { token } from "../tokens.ts";
import { Client } from "./client.ts";
import { type EventReader, HttpPeer, type StreamEvent } from "./http-client.ts";
import { Resumable } from "./resumable-client.ts";

/** A client of any transport, as the contract suite sees it. It reads in the background until it is told to stop. */
export abstract class TransportClient {
  /** Everything read since the client last had to start over, in the order in which it came. */
  readonly read: Json[] = [];
  #nextId = 0;
  #changed = Promise.withResolvers<void>();
  #gate: PromiseWithResolvers<void> | undefined;

  abstract get connection(): string;
  /** The end of the client's socket, if it has one. */
  closed: Promise<{ code: number; reason: string }> | undefined;
  abstract send(message: Json, sessionId?: string): Promise<void>;
  /** Reads a session that the client is attached to, or is about to attach to. */
  abstract follow(sessionId: string): Promise<void>;
  /** Loses the connection without a goodbye. */
  abstract drop(): Promise<void>;
  /** Continues, or starts over if the transport cannot resume. */
  abstract comeBack(sessionId: string): Promise<void>;

  async call(method: string, params: Json): Promise<string> {
    this.#nextId += 1;
    const id = `c${this.#nextId}`;
    await this.send({ jsonrpc: "2.0", id, method, params }, params.sessionId as string | undefined);
    return id;
  }

  async answerTo(id: string): Promise<Json> {
    const isAnswer = (message: Json) => message.id === id && !("method" in message);
    await this.until(() => this.read.some(isAnswer));
    return this.read.find(isAnswer) as Json;
  }

  async request(method: string, params: Json): Promise<Json> {
    return this.answerTo(await this.call(method, params));
  }

  /** The agent's text in a session, as far as it was read. */
  text(sessionId: string): string {
    const isOfSession = ({ params }: Json) => (params as Json | undefined)?.sessionId === sessionId;
    return texts(this.read.filter(isOfSession)).join("");
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await this.#changed.promise;
  }

  stopReading(): void {
    this.#gate = Promise.withResolvers();
  }

  startReading(): void {
    this.#gate?.resolve();
    this.#gate = undefined;
  }

  /** Reads with `next` until that ends, or until the client has lost the connection. `take` yields the messages. */
  protected async pump<T>(
    next: () => Promise<T | undefined>,
    take: (item: T) => Json[],
    isOver: () => boolean,
  ): Promise<void> {
    for (;;) {
      await this.#gate?.promise;
      const item = await next();
      if (item === undefined || isOver()) return;
      this.read.push(...take(item));
      this.#changed.resolve();
      this.#changed = Promise.withResolvers();
    }
  }
}

export type Transport = {
  readonly name: string;
  /** A transport that cannot resume says why. Its client starts over with `session/load`. */
  readonly startsOver?: string;
  open(workspace: string): Promise<TransportClient>;
};

class PlainClient extends TransportClient {
  readonly #workspace: string;
  #client: Client;
  connection = "";

  constructor(workspace: string, client: Client) {
    super();
    this.#workspace = workspace;
    this.#client = client;
    this.#listen(client);
  }

  static async open(workspace: string): Promise<PlainClient> {
    const { client, connection } = await PlainClient.#dial(workspace);
    const plain = new PlainClient(workspace, client);
    plain.connection = connection;
    return plain;
  }

  static async #dial(workspace: string): Promise<{ client: Client; connection: string }> {
    const response = await exports.default.fetch(`https://edge.test/acp?workspace=${workspace}`, {
      headers: { Upgrade: "websocket", Authorization: `Bearer ${await token({ workspace })}` },
    });
    const client = new Client(response.webSocket as WebSocket);
    await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    return { client, connection: response.headers.get("Acp-Connection-Id") as string };
  }

  #listen(client: Client): void {
    // It answers pings as it reads, and so not at all while it does not read.
    client.answersPings = false;
    this.closed = client.closed;
    const take = (message: Json) => {
      if (message.method !== "_acp-edge/ping") return [message];
      client.send(JSON.stringify({ jsonrpc: "2.0", id: message.id, result: {} }));
      return [];
    };
    void this.pump(
      () => client.takeJson(),
      take,
      () => this.#client !== client,
    );
  }

  async send(message: Json): Promise<void> {
    this.#client.send(JSON.stringify(message));
  }

  async follow(): Promise<void> {}

  async drop(): Promise<void> {
    this.#client.socket.close(3000, "lost");
    await this.#client.closed;
  }

  async comeBack(sessionId: string): Promise<void> {
    const { client, connection } = await PlainClient.#dial(this.#workspace);
    this.#client = client;
    this.connection = connection;
    this.read.length = 0;
    this.#listen(client);
    await this.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
  }
}

class HttpTransportClient extends TransportClient {
  readonly #peer: HttpPeer;
  readonly #readers = new Map<string, { reader: EventReader; last: string | undefined }>();

  constructor(peer: HttpPeer) {
    super();
    this.#peer = peer;
  }

  static async open(workspace: string): Promise<HttpTransportClient> {
    const client = new HttpTransportClient(await HttpPeer.open(workspace));
    await client.follow("");
    return client;
  }

  get connection(): string {
    return this.#peer.connection;
  }

  async send(message: Json, sessionId?: string): Promise<void> {
    const response = await this.#peer.post(JSON.stringify(message), sessionId);
    if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`);
  }

  /** The empty id is that of the connection's own stream. */
  async follow(sessionId: string): Promise<void> {
    const last = this.#readers.get(sessionId)?.last;
    const stream = sessionId === "" ? undefined : sessionId;
    const reader = await vi.waitFor(() => this.#peer.stream(stream, last));
    const state = { reader, last };
    this.#readers.set(sessionId, state);
    const take = ({ id, message }: StreamEvent) => {
      state.last = id;
      return [message];
    };
    const isOver = () => this.#readers.get(sessionId) !== state;
    this.pump(() => reader.next(), take, isOver).catch(() => {});
  }

  async drop(): Promise<void> {
    for (const [stream, { reader, last }] of this.#readers) {
      this.#readers.set(stream, { reader, last });
      await reader.cancel();
    }
  }

  async comeBack(): Promise<void> {
    for (const stream of [...this.#readers.keys()]) await this.follow(stream);
  }
}

class ResumableTransportClient extends TransportClient {
  readonly #client: Resumable;
  #socket = 0;

  constructor(client: Resumable) {
    super();
    this.#client = client;
    this.#listen();
  }

  static async open(workspace: string): Promise<ResumableTransportClient> {
    return new ResumableTransportClient(await Resumable.open(workspace));
  }

  get connection(): string {
    return this.#client.connection;
  }

  async send(message: Json): Promise<void> {
    this.#client.send([message]);
  }

  async follow(): Promise<void> {}

  async drop(): Promise<void> {
    this.#socket += 1;
    this.#client.peer.socket.close(3000, "lost");
    await this.#client.peer.closed;
  }

  async comeBack(): Promise<void> {
    // Messages that came with the welcome, or just before the connection was lost, have been read as well.
    await this.#client.dial();
    this.read.push(...this.#client.read.splice(0));
    this.#listen();
  }

  #listen(): void {
    const socket = this.#socket;
    const next = async () => {
      await this.#client.take();
      return true;
    };
    const take = () => {
      this.#client.acknowledge();
      return this.#client.read.splice(0);
    };
    void this.pump(next, take, () => this.#socket !== socket);
  }
}

export const TRANSPORTS: readonly Transport[] = [
  {
    name: "a plain WebSocket",
    startsOver: "the socket is the connection, and a client of plain ACP keeps no cursor",
    open: (workspace) => PlainClient.open(workspace),
  },
  { name: "Streamable HTTP", open: (workspace) => HttpTransportClient.open(workspace) },
  { name: "the resumable wire", open: (workspace) => ResumableTransportClient.open(workspace) },
];
