/** A client over a plain WebSocket. It comes back with `session/load` after the last update that it has. */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import type { Random } from "../../fixtures/random.ts";
import { type Message, Peer, type SentAnswers } from "./peer.ts";

const HEARTBEAT_MS = 500;
const SILENT_MS = 2_500;
const RETRY_MS = 50;

export type SocketPeerOptions = {
  name: string;
  url: string;
  answers: SentAnswers;
  random: Random;
  /** Finds the event of an update in the session's log. */
  seqOf: (sessionId: string, token: string) => Promise<number>;
};

export class SocketPeer extends Peer {
  readonly #url: string;
  readonly #seqOf: SocketPeerOptions["seqOf"];
  #socket: WebSocket | undefined;
  #isClosed = false;
  #ended: Promise<void> = Promise.resolve();

  constructor({ name, url, answers, random, seqOf }: SocketPeerOptions) {
    super(name, answers, random);
    this.#url = url;
    this.#seqOf = seqOf;
  }

  async open(cwd: string): Promise<void> {
    const { lost } = await this.#connect();
    const result = await this.call("session/new", { cwd, mcpServers: [] });
    this.sessionId = (result as { sessionId: string }).sessionId;
    this.#ended = this.#stay(lost, cwd);
  }

  /** Reads the session of another client from its beginning. */
  follow(sessionId: string, cwd: string): void {
    this.sessionId = sessionId;
    this.#ended = this.#stay(Promise.resolve(), cwd);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#socket?.terminate();
    await this.#ended;
  }

  protected override transmit(message: Message): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.noteSent(message);
    this.#socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  async #stay(first: Promise<unknown>, cwd: string): Promise<void> {
    let lost = first;
    for (;;) {
      await lost;
      if (this.#isClosed) return;
      lost = this.#comeBack(cwd).catch(() => sleep(RETRY_MS));
    }
  }

  /** Resolves when the socket is lost again. */
  async #comeBack(cwd: string): Promise<void> {
    const last = this.seen.at(-1);
    const after = last === undefined ? 0 : await this.#seqOf(this.sessionId, last);
    const { lost } = await this.#connect();
    const attached = this.call("session/load", {
      sessionId: this.sessionId,
      cwd,
      mcpServers: [],
      _meta: { "acp-edge/after": after },
    });
    attached.then(
      () => this.repeatPrompts(),
      () => this.#socket?.terminate(),
    );
    await lost;
  }

  /** `lost` is the end of the socket. */
  async #connect(): Promise<{ lost: Promise<void> }> {
    const socket = new WebSocket(this.#url, { handshakeTimeout: SILENT_MS });
    socket.on("error", () => {});
    const closed = once(socket, "close");
    await Promise.race([
      once(socket, "open"),
      closed.then(() => {
        throw new Error("not connected");
      }),
    ]);
    this.#socket = socket;
    let heard = Date.now();
    const beat = setInterval(() => {
      if (Date.now() - heard > SILENT_MS) socket.terminate();
      else socket.ping();
    }, HEARTBEAT_MS);
    socket.on("pong", () => {
      heard = Date.now();
    });
    socket.on("message", (data) => {
      heard = Date.now();
      if (this.#socket === socket) this.receive(JSON.parse(String(data)) as Message);
    });
    const lost = closed.then(() => {
      clearInterval(beat);
      this.#socket = undefined;
      this.forgetCalls();
    });
    await this.call("initialize", { protocolVersion: 1, clientCapabilities: {} });
    return { lost };
  }
}
