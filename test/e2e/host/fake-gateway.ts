import { EventEmitter, once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import {
  decodeLink,
  encodeLink,
  type GatewayControl,
  type HostControl,
  type HostHead,
} from "../../../src/protocol/host-wire.ts";

type Falsy = false | 0 | "" | null | undefined;

/** The gateway's side of the host wire, kept in memory. */
export class FakeGateway {
  readonly control: HostControl[] = [];
  readonly #changes = new EventEmitter().setMaxListeners(0);
  readonly #sessions = new Map<string, FakeSession>();
  readonly #server: Server;
  readonly #sockets = new Set<WebSocket>();
  controlSocket: WebSocket | undefined;
  /** HTTP status that refuses upgrades, by prefix of their path. */
  readonly refusals = new Map<string, number>();
  /** All upgrade requests. */
  readonly upgrades: IncomingMessage[] = [];
  answersPings = true;
  /** The answer to a hello. */
  answer: GatewayControl = { t: "welcome" };
  pings = 0;
  #processRequests = 0;

  static async start(): Promise<FakeGateway> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new FakeGateway(server);
  }

  private constructor(server: Server) {
    this.#server = server;
    const sockets = new WebSocketServer({ noServer: true, maxPayload: 64 * 1024 * 1024 });
    server.on("upgrade", (request, socket, head) => {
      this.upgrades.push(request);
      const status = [...this.refusals].find(([path]) => request.url?.startsWith(path))?.[1];
      if (status !== undefined) {
        socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
        this.#changed();
        return;
      }
      sockets.handleUpgrade(request, socket, head, (webSocket) => this.#accept(webSocket, request));
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  session(id: string): FakeSession {
    let session = this.#sessions.get(id);
    if (!session) {
      session = new FakeSession(() => this.#changed());
      this.#sessions.set(id, session);
    }
    return session;
  }

  /** Requests an agent process from the host and returns the session's side of it. */
  async open(
    id: string,
    agent = "fixture",
    processRequest = ++this.#processRequests,
    io?: "host" | "client",
  ): Promise<FakeSession> {
    await this.until(() => this.controlSocket);
    this.say({ t: "open", sessionId: id, agent, processRequest, io });
    return this.session(id);
  }

  /** Sends a message on the control socket. */
  say(message: GatewayControl): void {
    this.controlSocket?.send(JSON.stringify(message));
  }

  /** All messages of one type that the host has sent. */
  said<T extends HostControl["t"]>(t: T): Extract<HostControl, { t: T }>[] {
    return this.control.filter((message) => message.t === t) as Extract<HostControl, { t: T }>[];
  }

  /** Resolves with the first truthy value of `look`, which is called again after each change. */
  async until<T>(look: () => T): Promise<Exclude<T, Falsy>> {
    for (;;) {
      const seen = look();
      if (seen) return seen as Exclude<T, Falsy>;
      await once(this.#changes, "change");
    }
  }

  close(): void {
    for (const socket of this.#sockets) socket.terminate();
    this.#server.close();
  }

  #accept(socket: WebSocket, request: IncomingMessage): void {
    const url = new URL(request.url as string, "http://gateway");
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    const sessionId = /^\/host\/sessions\/(.+)$/.exec(url.pathname)?.[1];
    const session = sessionId === undefined ? undefined : this.session(decodeURIComponent(sessionId));
    session?.accept(socket);
    socket.on("message", (data) => {
      const text = data.toString();
      if (text === "ping") {
        this.pings++;
        if (this.answersPings) socket.send("pong");
      } else if (session) {
        session.message(socket, text);
      } else {
        this.#controlMessage(socket, JSON.parse(text) as HostControl);
      }
      this.#changed();
    });
    socket.on("close", () => {
      if (this.controlSocket === socket) this.controlSocket = undefined;
      session?.closed(socket);
      this.#changed();
    });
  }

  #controlMessage(socket: WebSocket, message: HostControl): void {
    this.control.push(message);
    if (message.t !== "hello") return;
    this.controlSocket = socket;
    socket.send(JSON.stringify(this.answer));
  }

  #changed(): void {
    this.#changes.emit("change");
  }
}

/** A session: the items of its run in order, and the lines for the agent. */
export class FakeSession {
  /** The items of the current run in order. Items out of order are in `faults`. */
  items: string[] = [];
  /** The items that are frames of the agent, parsed. */
  frames: Record<string, unknown>[] = [];
  messages: { first: number; count: number }[] = [];
  hellos: Extract<HostHead, { t: "hello" }>[] = [];
  faults: string[] = [];
  socket: WebSocket | undefined;
  /** The largest frame that the session says it takes. */
  frameChars: number | undefined;
  /** The session takes the output of terminals. */
  takesOutput = true;
  acking = true;
  /** Called for each message with items before its acknowledgement; true drops the socket instead. */
  dropsBeforeAck: () => boolean = () => false;
  /** The session fails on every message with items: it stores nothing, and its socket is lost. */
  failing = false;
  closeCode: number | undefined;
  readonly #changed: () => void;
  readonly #lines: { seq: number; frame: string }[] = [];
  #seq = 0;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** Logs a frame for the agent and sends it if there is a socket. */
  send(frame: unknown): void {
    // Sequence numbers have gaps, because the log has other entries too.
    this.#seq += 1 + (this.#seq % 3);
    this.#lines.push({ seq: this.#seq, frame: typeof frame === "string" ? frame : JSON.stringify(frame) });
    this.#sendLines(this.#seq - 1);
  }

  tell(method: string, params: unknown = {}): void {
    this.send({ jsonrpc: "2.0", method, params });
  }

  /** Sends every line again, because a gateway may not know what arrived. */
  repeat(): void {
    this.#sendLines(0);
  }

  stop(): void {
    this.socket?.send(encodeLink({ t: "stop", reason: "test" }));
  }

  /** Acknowledges everything; after this the session acknowledges as usual. */
  ack(): void {
    this.acking = true;
    this.#acknowledge();
  }

  /** The payloads of all events of one kind. */
  events<T = Record<string, unknown>>(kind: string): T[] {
    return this.items
      .filter((item) => item.startsWith("["))
      .map((item) => JSON.parse(item) as [string, T])
      .filter(([name]) => name === kind)
      .map(([, value]) => value);
  }

  get exit(): Record<string, unknown> | undefined {
    return this.events("exit")[0];
  }

  accept(socket: WebSocket): void {
    this.socket?.terminate();
    this.socket = socket;
  }

  closed(socket: WebSocket): void {
    if (this.socket === socket) this.socket = undefined;
  }

  message(socket: WebSocket, text: string): void {
    if (socket !== this.socket) return;
    const { head, lines } = decodeLink(text) as { head: HostHead; lines: string[] };
    if (head.t === "hello") {
      if (this.hellos.at(-1)?.run !== head.run) {
        this.items = [];
        this.frames = [];
      }
      this.hellos.push(head);
      socket.send(
        encodeLink({
          t: "welcome",
          received: this.items.length,
          frameChars: this.frameChars,
          ...(this.takesOutput && { terminalOutput: true }),
        }),
      );
      this.#sendLines(head.delivered);
      return;
    }
    if (this.failing) return socket.terminate();
    if (head.first !== this.items.length + 1)
      this.faults.push(`got ${head.first} after ${this.items.length}`);
    this.items.push(...lines);
    this.frames.push(...lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line)));
    this.messages.push({ first: head.first, count: lines.length });
    if (this.dropsBeforeAck()) {
      socket.terminate();
      this.closed(socket);
    } else if (this.acking) {
      this.#acknowledge();
    }
    this.#changed();
  }

  #acknowledge(): void {
    this.socket?.send(encodeLink({ t: "ack", received: this.items.length }));
  }

  #sendLines(after: number): void {
    const lines = this.#lines.filter(({ seq }) => seq > after).map(({ seq, frame }) => `${seq} ${frame}`);
    if (lines.length > 0) this.socket?.send(encodeLink({ t: "lines" }, lines));
  }
}
