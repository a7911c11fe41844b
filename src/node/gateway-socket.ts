import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { addAbortSignal } from "node:stream";
import { text } from "node:stream/consumers";
import { WebSocket } from "ws";
import { CloseCode } from "../protocol/close-codes.ts";
import type { Limits } from "../protocol/limits.ts";
import { type Log, reasonOf } from "./log.ts";
import { ReconnectDelay } from "./reconnect-delay.ts";
import type { Timing } from "./timing.ts";

/** The address and the credentials that all sockets to one gateway share. */
export type Gateway = {
  url: string;
  /** Called for each new socket, because tokens are renewed. `refused` is a token that the gateway has rejected. */
  token: (refused?: string) => string | Promise<string>;
  timing: Timing;
  limits: Limits;
  log: Log;
};

/** Why a socket was lost: the close code, and the HTTP response if the gateway answered the upgrade with one. */
export type Loss = { code: number; reason: string; status?: number; body?: string };

export type SocketHandlers = {
  /** The subprotocol and the headers to send with the upgrade, besides the token. */
  dial?(): { protocol?: string; headers?: Record<string, string> };
  opened(): void;
  message(text: string): void;
  /** Decides whether to dial again. */
  lost(loss: Loss): "retry" | "give up";
};

/** How long a closing handshake may take. */
const CLOSE_MS = 2_000;
/** Close codes of a gateway over its limits (policy violation, try again later). Retrying sooner does not help. */
const RETRY_LATER: ReadonlySet<number> = new Set([CloseCode.policyViolation, CloseCode.tryAgainLater]);
/** How long to read the body of a refused upgrade. */
const BODY_MS = 2_000;
/** The slowest network we support. The reply to a heartbeat queues behind everything sent before it. */
const SLOW_CHARS_PER_MS = 64;

/** A socket to the gateway that reconnects whenever it is lost and detects by heartbeat that the peer is gone. */
export class GatewaySocket {
  readonly #path: string;
  readonly #gateway: Gateway;
  readonly #handlers: SocketHandlers;
  readonly #delay: ReconnectDelay;
  #socket: WebSocket | null = null;
  #retry: NodeJS.Timeout | undefined;
  #closed = false;
  #refused: string | undefined;
  #ping: NodeJS.Timeout | undefined;
  #pong: NodeJS.Timeout | undefined;
  /** Characters sent on this socket. */
  #sent = 0;
  /** `#sent` at the time of each heartbeat that has no reply yet. */
  #pings: number[] = [];
  /** Characters that had been sent before the last answered heartbeat: those have arrived. */
  #arrived = 0;

  constructor(gateway: Gateway, path: string, handlers: SocketHandlers) {
    this.#gateway = gateway;
    this.#path = path;
    this.#handlers = handlers;
    this.#delay = new ReconnectDelay(gateway.url, gateway.timing);
    this.#dial();
  }

  /** Bytes passed to `send` that the operating system has not accepted yet. */
  get bufferedAmount(): number {
    return this.#socket?.bufferedAmount ?? 0;
  }

  /** `onAccepted` is called when the operating system has accepted the text. */
  send(text: string, onAccepted?: () => void): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#sent += text.length;
    this.#socket.send(text, onAccepted);
  }

  /** Skips the rest of the current retry delay. */
  retryNow(): void {
    if (this.#retry) this.#dial();
  }

  /** Somebody waits: skips a delay that only spreads clients. Delays after failures stay. */
  hurry(): void {
    if (this.#delay.isSpread) this.retryNow();
  }

  /**
   * The gateway has taken or given something, so the next loss is a new one. A welcome is no such proof: an object that
   * fails on what follows the welcome would be called without a pause.
   */
  progress(): void {
    this.#delay.reset();
  }

  /** Drops the current socket and reconnects after a delay. The greeting on the new socket restores consistency. */
  drop(reason: string): void {
    if (!this.#socket) return;
    this.#abandon();
    this.#lost({ code: CloseCode.lost, reason }, true);
  }

  /** Replaces the current socket by a new one immediately. */
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
    socket.close(CloseCode.normal);
    // The peer may never answer the close frame.
    setTimeout(() => socket.terminate(), CLOSE_MS).unref();
  }

  #dial(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const token = this.#gateway.token(this.#refused);
    if (typeof token === "string") return this.#dialWith(token);
    token.then(
      (text) => this.#closed || this.#dialWith(text),
      (error: unknown) => this.#closed || this.#lost({ code: CloseCode.lost, reason: reasonOf(error) }),
    );
  }

  #dialWith(token: string): void {
    const { url, timing, limits } = this.#gateway;
    const { protocol, headers } = this.#handlers.dial?.() ?? {};
    const address = url.replace(/^http/, "ws").replace(/(?<!\/)\/+$/, "") + this.#path;
    const socket = new WebSocket(address, protocol === undefined ? [] : [protocol], {
      headers: { ...headers, authorization: `Bearer ${token}` },
      perMessageDeflate: false,
      handshakeTimeout: timing.dialMs,
      maxPayload: 4 * limits.frameChars,
    });
    this.#socket = socket;
    let status: number | undefined;
    let body = "";
    let reason = "";
    let stream: Socket | undefined;
    let wasOpen = false;
    socket.on("upgrade", (response) => {
      stream = response.socket;
    });
    // An abandoned socket may still emit events, so every handler checks that its socket is the current one.
    socket.on("open", () => {
      if (socket !== this.#socket) return;
      wasOpen = true;
      this.#startPinging(socket, () => stream?.bytesRead ?? 0);
      this.#handlers.opened();
    });
    socket.on("message", (data) => {
      if (socket !== this.#socket) return;
      clearTimeout(this.#pong);
      this.#pong = undefined;
      const text = data.toString();
      if (text !== "pong") return this.#handlers.message(text);
      this.#arrived = this.#pings.shift() ?? this.#arrived;
      // A socket that has lasted for a heartbeat has outlasted the failure before it.
      this.progress();
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
      if (code === CloseCode.unauthorized || status === 401) this.#refused = token;
      this.#abandon();
      this.#lost(
        { code, reason: reason || closeReason.toString(), ...(status !== undefined && { status, body }) },
        wasOpen,
      );
    });
  }

  #lost(loss: Loss, wasOpen = false): void {
    if (this.#handlers.lost(loss) === "give up") return;
    const delay = RETRY_LATER.has(loss.code) ? this.#delay.pause() : this.#delay.next(wasOpen);
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
        // A peer in the middle of a long message is alive.
        if (bytesRead() > before) wait(pongWithinMs);
        else socket.terminate();
      }, ms);
    };
    this.#ping = setInterval(() => {
      const late = Date.now() - last > 2 * pingEveryMs + pongWithinMs;
      last = Date.now();
      // This machine was suspended, and the peer has given up on this socket meanwhile.
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

/** The body of a response, or nothing if it does not end in time. */
function bodyOf(response: IncomingMessage): Promise<string> {
  return text(addAbortSignal(AbortSignal.timeout(BODY_MS), response)).catch(() => "");
}
