/**
 * Clients of a running gateway: the official SDK as editors use it, and a bare socket for messages the SDK would not
 * send.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { Socket } from "node:net";
import {
  type AnyMessage,
  type ClientCapabilities,
  type ClientConnection,
  client,
  type MaybePromise,
  methods,
  PROTOCOL_VERSION,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";
import { Changes } from "./changes.ts";
import type { Gateway } from "./gateway.ts";
import { textOf } from "./updates.ts";

/** A gateway, as far as its clients know it. */
export type Reachable = Pick<Gateway, "url" | "wsUrl" | "token" | "root" | "api">;

/** An event that takes longer never comes. */
const PATIENCE_MS = 20_000;

/** A JSON-RPC message, with the members tests read. */
export type Message = {
  id?: unknown;
  method?: string;
  params?: { sessionId?: string; update?: SessionUpdate; [name: string]: unknown };
  result?: unknown;
  error?: RpcError;
};
export type RpcError = { code: number; message: string; data?: Record<string, unknown> };

/** A list of events for tests that wait for one of them. */
export class Transcript<Entry> {
  readonly entries: Entry[] = [];
  readonly #changes = new Changes();
  #ended = false;

  push(entry: Entry): void {
    this.entries.push(entry);
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** The first entry, from index `from` on, that satisfies the condition. */
  async until(is: (entry: Entry) => boolean, from = 0): Promise<Entry> {
    const deadline = Date.now() + PATIENCE_MS;
    for (let at = from; ; at++) {
      while (at >= this.entries.length) {
        if (this.#ended) throw new Error(`The connection ended before ${is}`);
        if (Date.now() >= deadline) throw new Error(`Not within ${PATIENCE_MS} ms: ${is}`);
        await this.#changes.next(deadline);
      }
      const entry = this.entries[at] as Entry;
      if (is(entry)) return entry;
    }
  }

  #wake(): void {
    this.#changes.announce();
  }
}

/** A message on the wire. The SDK calls its handlers later and in another order. */
export type Wired = { by: "us" | "them"; message: Message };

/** One turn and its range in the transcript. */
export type Turn = { stopReason: StopReason; updates: SessionUpdate[]; start: number; end: number };

/** The default is a WebSocket to the workspace's default agent, by a client without further abilities. */
type ConnectOptions = { agent?: string; over?: "http"; capabilities?: ClientCapabilities };

type Permission = (request: RequestPermissionRequest) => MaybePromise<RequestPermissionResponse>;

/** An editor. */
export class Client implements AsyncDisposable {
  readonly wire = new Transcript<Wired>();
  readonly closed: Promise<void>;
  /** How the user answers; the default is never. */
  onPermission: Permission = () => new Promise(() => {});
  readonly #gateway: Reachable;
  readonly #connection: ClientConnection;

  private constructor(gateway: Reachable, { agent, over }: ConnectOptions) {
    this.#gateway = gateway;
    const choice = agent === undefined ? "" : `&agent=${agent}`;
    const query = `?token=${gateway.token}${choice}`;
    const { readable, writable } =
      over === "http"
        ? createHttpStream(`${gateway.url}/acp${query}`)
        : createWebSocketStream(`${gateway.wsUrl}${query}`);
    const incoming = this.#recorder("them");
    const outgoing = this.#recorder("us");
    // A broken pipe ends the connection, which reports that.
    readable.pipeTo(incoming.writable).catch(() => {});
    outgoing.readable.pipeTo(writable).catch(() => {});
    this.#connection = client({ name: "e2e" })
      .onNotification("*", () => {})
      .onRequest(methods.client.session.requestPermission, ({ params }) => this.onPermission(params))
      .connect({ readable: incoming.readable, writable: outgoing.writable });
    this.closed = this.#connection.closed;
    void this.closed.then(() => this.wire.end());
  }

  static async connect(gateway: Reachable, options: ConnectOptions = {}): Promise<Client> {
    const client = new Client(gateway, options);
    await client.agent.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: options.capabilities ?? {},
    });
    return client;
  }

  get agent() {
    return this.#connection.agent;
  }

  async newSession(): Promise<string> {
    return (await this.openSession()).sessionId;
  }

  openSession() {
    return this.agent.request(methods.agent.session.new, { cwd: this.#gateway.root, mcpServers: [] });
  }

  /** Replays the conversation. After a sequence number, if given, messages are not merged. */
  load(sessionId: string, after?: number) {
    const params = { sessionId, cwd: this.#gateway.root, mcpServers: [] };
    const cursor = after === undefined ? {} : { _meta: { "acp-edge/after": after } };
    return this.agent.request(methods.agent.session.load, { ...params, ...cursor });
  }

  async prompt(sessionId: string, text: string): Promise<Turn> {
    const mark = randomUUID();
    const { stopReason } = await this.agent.request(methods.agent.session.prompt, {
      sessionId,
      prompt: [{ type: "text", text }],
      _meta: { "test/mark": mark },
    });
    const { entries } = this.wire;
    const start = entries.findIndex(({ by, message }) => by === "us" && markOf(message) === mark);
    const { id } = entries[start]!.message;
    const end = entries.findIndex(({ by, message }) => by === "them" && message.id === id && !message.method);
    return { stopReason, updates: this.updates(sessionId, start, end), start, end };
  }

  cancel(sessionId: string): Promise<void> {
    return this.agent.notify(methods.agent.session.cancel, { sessionId });
  }

  /** The updates of a session, within a range of the transcript. */
  updates(sessionId: string, start = 0, end?: number): SessionUpdate[] {
    return this.wire.entries
      .slice(start, end)
      .flatMap(({ by, message }) => (by === "them" ? (updateOf(message, sessionId) ?? []) : []));
  }

  /** Waits for a message of the gateway. */
  async receives(is: (message: Message) => boolean): Promise<Message> {
    return (await this.wire.until(({ by, message }) => by === "them" && is(message))).message;
  }

  /** Waits until the agent has said a text, within one chunk. */
  async hears(sessionId: string, text: string): Promise<void> {
    await this.updated(sessionId, (update) => textOf([update]).includes(text));
  }

  /** Waits for an update. */
  async updated(sessionId: string, is: (update: SessionUpdate) => boolean): Promise<void> {
    await this.receives((message) => {
      const update = updateOf(message, sessionId);
      return update !== undefined && is(update);
    });
  }

  async close(): Promise<void> {
    this.#connection.close();
    await this.closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #recorder(by: Wired["by"]): TransformStream<AnyMessage, AnyMessage> {
    return new TransformStream({
      transform: (message, controller) => {
        this.wire.push({ by, message: message as Message });
        controller.enqueue(message);
      },
    });
  }
}

/** A socket and the texts that came through it. */
export class RawClient implements AsyncDisposable {
  readonly texts = new Transcript<string>();
  readonly closed: Promise<{ code: number; reason: string }>;
  readonly #socket: WebSocket;
  #stream: Socket | undefined;

  private constructor(gateway: Reachable) {
    this.#socket = new WebSocket(`${gateway.wsUrl}?token=${gateway.token}`, { maxPayload: 64 * 1024 * 1024 });
    this.#socket.on("message", (data) => this.texts.push(String(data)));
    this.#socket.on("upgrade", ({ socket }) => {
      this.#stream = socket;
    });
    this.closed = once(this.#socket, "close").then(([code, reason]) => {
      this.texts.end();
      return { code: code as number, reason: String(reason) };
    });
  }

  /** Connects without sending anything. */
  static async connect(gateway: Reachable): Promise<RawClient> {
    const client = new RawClient(gateway);
    await once(client.#socket, "open");
    return client;
  }

  static async initialized(gateway: Reachable): Promise<RawClient> {
    const client = await RawClient.connect(gateway);
    await client.request("initialize", { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
    return client;
  }

  send(data: string | Buffer): void {
    this.#socket.send(data);
  }

  /** Violates the WebSocket protocol with a frame of an unknown opcode. */
  violate(): void {
    this.#stream?.write(Buffer.from([0x8b, 0x80, 0, 0, 0, 0]));
  }

  /** Resolves to the response, whether it is a result or an error. */
  async request(method: string, params: object): Promise<Message> {
    const id = randomUUID();
    const from = this.texts.entries.length;
    this.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    return parse(await this.texts.until((text) => parse(text).id === id, from));
  }

  /** The next response that arrives from now on. */
  async answer(): Promise<Message> {
    return parse(await this.texts.until((text) => !parse(text).method, this.texts.entries.length));
  }

  async newSession(cwd: string): Promise<string> {
    const { result } = await this.request("session/new", { cwd, mcpServers: [] });
    return (result as { sessionId: string }).sessionId;
  }

  /** Closes the socket; `closed` resolves to the gateway's answer. */
  close(code: number): void {
    this.#socket.close(code);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.terminate();
    await this.closed;
  }
}

/** An event of the log, as `GET /api/sessions/:id/events` gives it. */
export type LogEvent = {
  seq: number;
  source: string;
  kind: string;
  turnId: string | null;
  payload: Record<string, unknown> & { direction?: "in" | "out"; message?: Message };
};

export async function readLog(gateway: Reachable, sessionId: string): Promise<LogEvent[]> {
  const response = await gateway.api(`/api/sessions/${sessionId}/events`);
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return (await response.text())
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as LogEvent);
}

/** The updates an agent wrote, as the log has them. */
export function loggedUpdates(log: LogEvent[]): SessionUpdate[] {
  return log.flatMap(({ source, payload }) => (source === "agent" && payload.message?.params?.update) || []);
}

export function parse(text: string): Message {
  return JSON.parse(text) as Message;
}

function updateOf({ method, params }: Message, sessionId: string): SessionUpdate | undefined {
  return method === "session/update" && params?.sessionId === sessionId ? params.update : undefined;
}

function markOf({ params }: Message): unknown {
  return (params?._meta as Record<string, unknown> | undefined)?.["test/mark"];
}
