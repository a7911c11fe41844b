import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { addAbortSignal } from "node:stream";
import { text } from "node:stream/consumers";
import { WebSocket } from "ws";
import { UNAUTHORIZED } from "../protocol/close-codes.ts";
import { LIMITS } from "../protocol/limits.ts";
import { Backoff } from "./backoff.ts";
import { type Log, reasonOf } from "./log.ts";
import type { Timing } from "./timing.ts";

/** Where the gateway is and how to be let in: what all sockets to it have in common. */
export type Gateway = {
  url: string;
  /** Asked for each socket: it may have been renewed. `refused` is one that the gateway takes no longer. */
  token: (refused?: string) => string | Promise<string>;
  timing: Timing;
  log: Log;
};

/** Why a socket is gone: the close code, and the HTTP answer if the gateway gave one to the upgrade. */
export type Loss = { code: number; reason: string; status?: number; body?: string };

export type SocketHandlers = {
  /** What to say besides the token when dialling. */
  dial?(): { protocol?: string; headers?: Record<string, string> };
  opened(): void;
  message(text: string): void;
  /** Decides whether to dial again. */
  lost(loss: Loss): "retry" | "give up";
};

/** How long a goodbye may take to arrive. */
const GOODBYE_MS = 2_000;
/** A gateway that has had enough for now says so with these: it takes no more for being asked at once. */
const LATER: ReadonlySet<number> = new Set([1008, 1013]);
/** How long to listen to a refusal. */
const BODY_MS = 2_000;
/** The slowest network we wait for: an answer to a heartbeat comes behind all that was sent before it. */
const SLOW_CHARS_PER_MS = 64;

/** A socket to the gateway that dials again whenever it is lost, and notices when the other side is gone. */
export class GatewaySocket {
  readonly #path: string;
  readonly #gateway: Gateway;
  readonly #handlers: SocketHandlers;
  readonly #backoff: Backoff;
  #socket: WebSocket | null = null;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;
  #refused: string | undefined;
  #ping: NodeJS.Timeout | undefined;
  #pong: NodeJS.Timeout | undefined;
  /** Characters sent on this socket: in all, before each heartbeat under way, and known to have arrived. */
  #sent = 0;
  #pings: number[] = [];
  #arrived = 0;

  constructor(gateway: Gateway, path: string, handlers: SocketHandlers) {
    this.#gateway = gateway;
    this.#path = path;
    this.#handlers = handlers;
    this.#backoff = new Backoff(gateway.timing.retryMinMs, gateway.timing.retryMaxMs);
    this.#dial();
  }

  /** Bytes handed to `send` that the operating system has not taken yet. */
  get bufferedAmount(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  send(text: string, taken?: () => void): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#sent += text.length;
    this.#socket.send(text, taken);
  }

  /** Somebody waits for this socket: if it sits out a delay, dial now. */
  retryNow(): void {
    if (this.#retry) this.#dial();
  }

  /** Gives up on the current socket and dials again: the greeting sets things right. */
  drop(reason: string): void {
    if (!this.#socket) return;
    this.#abandon();
    this.#lost({ code: 1006, reason });
  }

  /** The next socket takes the place of this one, at once. */
  redial(): void {
    if (!this.#socket) return;
    this.#abandon();
    this.#dial();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#retry);
    this.#stopPinging();
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return;
    socket.close(1000);
    // If nobody hears it, it has been said.
    setTimeout(() => socket.terminate(), GOODBYE_MS).unref();
  }

  #dial(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const token = this.#gateway.token(this.#refused);
    if (typeof token === "string") return this.#dialWith(token);
    token.then(
      (text) => this.#closed || this.#dialWith(text),
      (error: unknown) => this.#closed || this.#lost({ code: 1006, reason: reasonOf(error) }),
    );
  }

  #dialWith(token: string): void {
    const { url, timing } = this.#gateway;
    const { protocol, headers } = this.#handlers.dial?.() ?? {};
    const address = url.replace(/^http/, "ws").replace(/\/+$/, "") + this.#path;
    const socket = new WebSocket(address, protocol === undefined ? [] : [protocol], {
      headers: { ...headers, authorization: `Bearer ${token}` },
      perMessageDeflate: false,
      handshakeTimeout: timing.dialMs,
      maxPayload: 4 * LIMITS.frameChars,
    });
    this.#socket = socket;
    let status: number | undefined;
    let body = "";
    let reason = "";
    let stream: Socket | undefined;
    socket.on("upgrade", (response) => {
      stream = response.socket;
    });
    // Every handler asks whether it still speaks for the current socket: an abandoned one may have more to say.
    socket.on("open", () => {
      if (socket !== this.#socket) return;
      this.#startPinging(socket, () => stream?.bytesRead ?? 0);
      this.#handlers.opened();
    });
    socket.on("message", (data) => {
      if (socket !== this.#socket) return;
      clearTimeout(this.#pong);
      this.#pong = undefined;
      const text = data.toString();
      if (text === "pong") this.#arrived = this.#pings.shift() ?? this.#arrived;
      else this.#handlers.message(text);
      // A socket that is given up for what came through it was no success.
      if (socket === this.#socket) this.#backoff.reset();
    });
    socket.on("unexpected-response", async (_request, response) => {
      status = response.statusCode;
      body = await bodyOf(response);
      socket.terminate();
    });
    socket.on("error", (error) => {
      reason ||= status === undefined ? error.message : `HTTP ${status}`;
    });
    socket.on("close", (code, closeReason) => {
      if (socket !== this.#socket) return;
      if (code === UNAUTHORIZED || status === 401) this.#refused = token;
      this.#abandon();
      this.#lost({
        code,
        reason: reason || closeReason.toString(),
        ...(status !== undefined && { status, body }),
      });
    });
  }

  #lost(loss: Loss): void {
    if (this.#handlers.lost(loss) === "give up") return;
    const delay = LATER.has(loss.code) ? this.#gateway.timing.retryMaxMs : this.#backoff.next();
    const why = [loss.status === undefined ? loss.code : "", loss.reason].filter(Boolean).join(" ");
    const where = this.#path === "" ? "" : ` (${this.#path})`;
    this.#gateway.log(`link lost, trying again in ${(delay / 1000).toFixed(1)} s: ${why}${where}`);
    this.#retry = setTimeout(() => this.#dial(), delay);
  }

  #abandon(): void {
    this.#stopPinging();
    const socket = this.#socket;
    this.#socket = null;
    socket?.terminate();
  }

  #startPinging(socket: WebSocket, bytesRead: () => number): void {
    const { pingEveryMs, pongWithinMs } = this.#gateway.timing;
    this.#sent = 0;
    this.#arrived = 0;
    this.#pings = [];
    let last = Date.now();
    const wait = (ms: number) => {
      const before = bytesRead();
      this.#pong = setTimeout(() => {
        // Long messages take their time: whoever sends one is there.
        if (bytesRead() > before) wait(pongWithinMs);
        else socket.terminate();
      }, ms);
    };
    this.#ping = setInterval(() => {
      const late = Date.now() - last > 2 * pingEveryMs + pongWithinMs;
      last = Date.now();
      // The machine has slept: whatever there was at the other end has given up on us.
      if (late) return socket.terminate();
      if (this.#pong) return;
      socket.send("ping");
      this.#pings.push(this.#sent);
      wait(pongWithinMs + (this.#sent - this.#arrived) / SLOW_CHARS_PER_MS);
    }, pingEveryMs);
  }

  #stopPinging(): void {
    clearInterval(this.#ping);
    clearTimeout(this.#pong);
    this.#pong = undefined;
  }
}

/** An answer that does not come to its end says nothing. */
function bodyOf(response: IncomingMessage): Promise<string> {
  return text(addAbortSignal(AbortSignal.timeout(BODY_MS), response)).catch(() => "");
}
