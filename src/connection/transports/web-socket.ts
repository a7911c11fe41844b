import type { Caller } from "../../protocol/caller.ts";
import type { ClientState } from "../../protocol/client-state.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { cursorAfter, type EventCursor } from "../../protocol/cursor.ts";
import { translateBack } from "../../protocol/dialects/index.ts";
import { ExtensionMethod } from "../../protocol/extensions.ts";
import type { Frame } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Allowance, DeliveryResult, Handover, Page, ReaderPosition } from "../../protocol/rpc.ts";
import { RPC_VERSION } from "../../protocol/versions.ts";
import { Admission } from "../admission.ts";
import type { Client, Exchange } from "../client.ts";
import { relayToOthers, wakeSessions } from "../client-sessions.ts";
import { Intake, type IntakeResult } from "../intake.ts";
import { checkLiveness, type LivenessCheck, touch } from "../liveness.ts";
import type { Logins } from "../logins.ts";
import { AgentControl, PING, PONG } from "../methods/control-frames.ts";
import { Router } from "../router.ts";
import type { ConnectionParts } from "../stored-client.ts";
import { EXPIRED, isExpired } from "../token-lifetime.ts";
import { SocketState } from "./socket-state.ts";

/** A client on one WebSocket: it gets the frames of all its sessions in the order in which they come. */
export class SocketClient {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #logins: Logins;
  readonly #ws: WebSocket;
  readonly #client: SocketState;
  readonly #intake: Intake;
  readonly #exchange: Exchange;
  readonly #control: AgentControl | undefined;
  /** Frames are routed in the order in which they came, also while one waits for the workspace. */
  #routing: Promise<void> = Promise.resolve();

  constructor({ ctx, env, lifetime, logins, limits }: SocketParts, ws: WebSocket, client: SocketState) {
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#logins = logins;
    this.#ws = ws;
    this.#client = client;
    // The client may have left before the answer was there.
    const answer = (text: string) => {
      if (ws.readyState === WebSocket.OPEN) ws.send(text);
    };
    this.#exchange = {
      answer,
      tell: answer,
      waitFor: (promise) => ctx.waitUntil(promise),
      // The client connects again, loads the session and sees what the session has.
      undelivered: () => ws.close(CloseCode.tryAgainLater, "session does not respond"),
    };
    const control = client.state.control ? new AgentControl(env, client, limits, answer) : undefined;
    this.#control = control;
    this.#intake = new Intake({
      client,
      admission: new Admission(env, client, limits),
      router: new Router(env, client, lifetime, logins, limits),
      limits,
      takeControl: async (value) => (await control?.receive(value)) ?? false,
      takeOwn: (frame) => (isPong(frame) ? this.#resume() : undefined),
    });
  }

  static accept(ctx: DurableObjectState, handover: Handover, allowance?: Allowance): Response {
    // The response to an earlier request for this socket was lost, and the socket with it.
    for (const lost of ctx.getWebSockets(CLIENT)) {
      SocketState.at(lost, ctx.storage.kv)?.update({ left: true });
      lost.close(CloseCode.abandoned, "replaced");
    }
    const { 0: client, 1: server } = new WebSocketPair();
    ctx.acceptWebSocket(server, [CLIENT]);
    const identity = { ...handover, initialized: false, dialect: null };
    SocketState.begin(server, ctx.storage.kv, identity, allowance);
    // A heartbeat is answered without waking the object.
    if (handover.control) ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    const headers = { "Acp-Connection-Id": handover.connection };
    return new Response(null, { status: 101, webSocket: client, headers });
  }

  /** The client of a socket that the object lost with its memory; undefined while there is a socket, or was none. */
  static lost(ctx: DurableObjectState): ClientState | undefined {
    return ctx.getWebSockets(CLIENT).length === 0 ? SocketState.lost(ctx.storage.kv) : undefined;
  }

  /** The open socket of the object's client. */
  static socket(ctx: DurableObjectState): WebSocket | undefined {
    return ctx.getWebSockets(CLIENT).find((ws) => ws.readyState === WebSocket.OPEN);
  }

  /** The client at the other end of a socket; undefined when the socket's attachment is unreadable. */
  static at(parts: SocketParts, ws: WebSocket): SocketClient | undefined {
    const state = SocketState.at(ws, parts.ctx.storage.kv);
    return state && new SocketClient(parts, ws, state);
  }

  get socket(): WebSocket {
    return this.#ws;
  }

  get client(): Client {
    return this.#client;
  }

  // ---- from the client --------------------------------------------------------------------------------

  receive(message: string | ArrayBuffer): Promise<void> {
    const liveness = touch(this.#client.attachment, Date.now(), this.#limits);
    if (liveness) this.#client.update(liveness);
    this.#routing = this.#routing
      .then(() => this.#receive(message))
      .catch((error: unknown) => {
        console.error("connection failed", { error: String(error) });
        this.#ws.close(CloseCode.internalError, "internal error");
      });
    return this.#routing;
  }

  async #receive(message: string | ArrayBuffer): Promise<void> {
    if (typeof message !== "string" || this.#ws.readyState !== WebSocket.OPEN) return;
    if (isExpired(this.#client.state, Date.now())) return this.end(EXPIRED);
    this.#closeFor(await this.#intake.receive(message, this.#exchange));
  }

  /** Over a plain WebSocket, a client that breaks the rules loses its connection. */
  #closeFor(result: IntakeResult): void {
    switch (result.kind) {
      case "taken":
      case "too-long":
        return;
      case "id-too-long":
        return this.#ws.close(CloseCode.policyViolation, "id too long");
      case "quota-exceeded":
        return this.#ws.close(CloseCode.policyViolation, "quota exceeded");
      case "uninitialized":
        if (result.frame.kind !== "response") this.#ws.close(CloseCode.protocolError, "initialize first");
    }
  }

  /** Resolves to the client's state when none of its messages is under way any more. */
  async settled() {
    await this.#routing;
    return this.#client.state;
  }

  /** Notifies the client of something about the connection, once the client has initialized. */
  notify(text: (caller: Caller) => string): void {
    const { initialized, caller } = this.#client.state;
    if (initialized) this.#ws.send(text(caller));
  }

  end(reason: string, code: number = CloseCode.unauthorized): void {
    this.#ws.close(code, reason);
  }

  // ---- liveness ---------------------------------------------------------------------------------------

  /** Pings the client if it has been silent for long. Says when to check again, or why the socket must close. */
  checkLiveness(now: number): Exclude<LivenessCheck, "ping"> {
    // A heartbeat that is answered without waking the object is a sign of life as well.
    const ponged = this.#ctx.getWebSocketAutoResponseTimestamp(this.#ws)?.getTime() ?? 0;
    const { heard, askedAt, pausedAt } = this.#client.attachment;
    const liveness = { heard: Math.max(heard, ponged), askedAt, pausedAt };
    const check = checkLiveness(liveness, this.#canBePinged, now, this.#limits);
    if (check !== "ping") return check;
    this.#ping();
    this.#client.update({ askedAt: now });
    return now + this.#limits.pongMs;
  }

  /** Marks the client as gone; false if it was. A socket that is given up may still report its end, or never. */
  leave(): boolean {
    if (this.#client.attachment.left) return false;
    this.#client.update({ left: true });
    return true;
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  sessions(): readonly string[] {
    return this.#client.sessions();
  }

  startReading(sessionId: string): ReaderPosition {
    const cursor = this.#client.cursor(sessionId);
    return {
      v: RPC_VERSION,
      cursor: cursor ? cursorAfter(cursor) : null,
      rests: this.#client.attachment.paused === true,
    };
  }

  deliver(sessionId: string, { end, frames }: Page): DeliveryResult {
    const { cursors, paused, unread = 0, heard } = this.#client.attachment;
    const cursor = cursors[sessionId];
    // The session was reset before it learnt that the page had arrived, or a later attachment has begun.
    if (cursor && isBehind(end, cursor)) return "more";
    if (paused) return "later";
    for (const frame of frames) this.#say(sessionId, frame);
    this.#client.update({
      heard: this.#canBePinged ? heard : Date.now(),
      unread: frames.reduce((sum, frame) => sum + frame.length, unread),
      cursors: { ...cursors, [sessionId]: end },
    });
    return this.#pausesForPong() ? "enough" : "more";
  }

  /** Relays a login or logout that the agent of session `from` has accepted. */
  relay(from: string, raw: string, agent?: string): Promise<void> {
    return relayToOthers(this.#env, this.#client, this.#logins, from, raw, agent);
  }

  /**
   * Pings the client after every `unreadChars` characters, and sends no more until it answers. The runtime does not
   * tell how much of a socket's output is still unsent, and keeps all of it in memory. Any answer to the ping will do,
   * also that the client knows no such method; clients that speak a dialect may not answer unknown methods at all.
   */
  #pausesForPong(): boolean {
    if ((this.#client.attachment.unread ?? 0) < this.#limits.unreadChars || !this.#canBePinged) return false;
    this.#ping();
    this.#client.update({ paused: true, pausedAt: Date.now() });
    return true;
  }

  #ping(): void {
    this.#ws.send(`{"jsonrpc":"2.0","id":${PING_ID},"method":"${ExtensionMethod.ping}","params":{}}`);
  }

  get #canBePinged(): boolean {
    const { dialect, control, initialized } = this.#client.state;
    return dialect === null && !control && initialized;
  }

  /** The client has read what it was sent: its sessions continue. */
  async #resume(): Promise<void> {
    this.#client.update({ paused: undefined, pausedAt: undefined, unread: 0 });
    await wakeSessions(this.#env, this.#client);
  }

  #say(sessionId: string, frame: string): void {
    if (this.#control?.consume(frame)) return;
    const { dialect } = this.#client.state;
    if (dialect === null) this.#ws.send(frame);
    else for (const text of translateBack(dialect, frame, sessionId)) this.#ws.send(text);
  }
}

type SocketParts = Pick<ConnectionParts, "ctx" | "env" | "lifetime" | "logins" | "limits">;

/** Whether the client already has a page that ends there, or the page belongs to an earlier attachment. */
function isBehind(end: EventCursor, cursor: EventCursor): boolean {
  return (
    end.attachment < cursor.attachment || (end.attachment === cursor.attachment && end.seq <= cursor.seq)
  );
}

function isPong({ kind, idText }: Frame): boolean {
  return kind === "response" && idText === PING_ID;
}

/** The tag of a client's socket. */
const CLIENT = "client";
/** The id of our ping. */
const PING_ID = '"acp-edge/ping"';
