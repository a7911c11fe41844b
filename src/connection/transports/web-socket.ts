import {
  type AttachmentOf,
  type ClientState,
  readAttachment,
  writeAttachment,
} from "../../durable/attachments.ts";
import type { Caller } from "../../protocol/caller.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { cursorAfter, type EventCursor } from "../../protocol/cursor.ts";
import { translateBack } from "../../protocol/dialects/index.ts";
import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { ExtensionMethod } from "../../protocol/extensions.ts";
import { isFault, readFrame } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { DeliveryResult, Handover, Page, ReaderPosition } from "../../protocol/rpc.ts";
import { type Client, type Exchange, rightsOf } from "../client.ts";
import { FAULTS, idTooLong } from "../jsonrpc-faults.ts";
import { hear, judge } from "../liveness.ts";
import { QUOTA_EXCEEDED, QuotaExceeded } from "../message-cost.ts";
import { AgentControl, PING, PONG } from "../methods/control-frames.ts";
import { Router } from "../router.ts";
import { EXPIRED, type TokenLife } from "../token-lifetime.ts";

/** Everything known of the client is on its socket, which lives as long as the connection and survives hibernation. */
type Attachment = AttachmentOf<"client">;

/** A client that speaks over one WebSocket: every message of every session in the order it comes. */
export class SocketClient implements Client {
  readonly #ctx: DurableObjectState;
  readonly #ws: WebSocket;
  readonly #life: TokenLife;
  readonly #router: Router;
  readonly #exchange: Exchange;
  readonly #control: AgentControl | undefined;
  #attachment: Attachment;
  /** Frames are routed in the order they came, also while one waits for the workspace. */
  #routing: Promise<void> = Promise.resolve();

  constructor(ctx: DurableObjectState, env: Env, ws: WebSocket, attachment: Attachment, life: TokenLife) {
    this.#ctx = ctx;
    this.#ws = ws;
    this.#life = life;
    this.#attachment = attachment;
    this.#router = new Router(env, this);
    // A client that has left while it was found does not hear the answer.
    const answer = (text: string) => {
      if (ws.readyState === WebSocket.OPEN) ws.send(text);
    };
    this.#exchange = { answer, waitFor: (promise) => ctx.waitUntil(promise) };
    if (this.#attachment.control) this.#control = new AgentControl(env, this, this.#exchange.answer);
  }

  static accept(ctx: DurableObjectState, handover: Handover): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    ctx.acceptWebSocket(server, [CLIENT]);
    const begin = { initialized: false, dialect: null, sent: 0, cursors: {}, heard: Date.now() };
    writeAttachment(server, { kind: "client", ...handover, ...begin });
    // Whoever only wants to know that we are here does not wake us.
    if (handover.control) ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    const headers = { "Acp-Connection-Id": handover.connection };
    return new Response(null, { status: 101, webSocket: client, headers });
  }

  /** The socket of the object's client, while it is open. */
  static socket(ctx: DurableObjectState): WebSocket | undefined {
    return ctx.getWebSockets(CLIENT).find((ws) => ws.readyState === WebSocket.OPEN);
  }

  /** The client at the other end of a socket; undefined when nothing is known of it. */
  static at(ctx: DurableObjectState, env: Env, ws: WebSocket, life: TokenLife): SocketClient | undefined {
    const attachment = readAttachment(ws, "client");
    return attachment && new SocketClient(ctx, env, ws, attachment, life);
  }

  get socket(): WebSocket {
    return this.#ws;
  }

  // ---- from the client --------------------------------------------------------------------------------

  receive(message: string | ArrayBuffer): Promise<void> {
    const signs = hear(this.#attachment, Date.now());
    if (signs) this.#save({ ...this.#attachment, ...signs });
    this.#routing = this.#routing
      .then(() => this.#receive(message))
      .catch((error: unknown) => {
        if (error instanceof QuotaExceeded) return this.end(QUOTA_EXCEEDED.reason, QUOTA_EXCEEDED.code);
        console.error("connection failed", { error: String(error) });
        this.#ws.close(CloseCode.internalError, "internal error");
      });
    return this.#routing;
  }

  /** What is known of it when nothing it has sent is under way any more. */
  async settled(): Promise<ClientState> {
    await this.#routing;
    return this.state;
  }

  async #receive(message: string | ArrayBuffer): Promise<void> {
    const ws = this.#ws;
    const { answer } = this.#exchange;
    if (typeof message !== "string" || ws.readyState !== WebSocket.OPEN) return;
    if (this.state.caller.expires * 1000 <= Date.now()) return this.end(EXPIRED);
    if (message.length > LIMITS.frameChars) {
      const error = {
        code: ErrorCode.invalidRequest,
        message: `Message exceeds ${LIMITS.frameChars} characters`,
      };
      ws.send(errorResponse("null", error));
      return ws.close(CloseCode.messageTooBig, "message too big");
    }
    const frame = readFrame(message);
    if (!(await this.#router.admit(message.length, isFault(frame) ? undefined : frame, this.#exchange)))
      return;
    if (isFault(frame)) return answer(errorResponse("null", FAULTS[frame.fault]));
    if (frame.kind === "invalid" && (await this.#control?.receive(frame.value))) return;
    if (frame.kind === "invalid") return answer(errorResponse("null", FAULTS["not-object"]));
    if (idTooLong(frame)) return ws.close(CloseCode.policyViolation, "id too long");
    if (frame.kind === "response" && frame.idText === STILL_THERE) return this.#isThere();
    if (frame.method === "initialize" && frame.kind === "request" && frame.value.id !== null)
      return this.#router.initialize(frame, this.#exchange);
    if (!this.state.initialized)
      return frame.kind === "response" ? undefined : ws.close(CloseCode.protocolError, "initialize first");
    await this.#router.route(frame, this.#exchange);
  }

  // ---- its token ----------------------------------------------------------------------------------------

  renew(caller: Caller): void {
    const { caller: before } = this.state;
    this.change({ caller: rightsOf(caller, this.state) });
    this.#life.goOn(this.state, before);
  }

  /** Says something of the connection itself, once the client knows that it has one. */
  notify(text: (caller: Caller) => string): void {
    if (this.state.initialized) this.#ws.send(text(this.state.caller));
  }

  end(reason: string, code: number = CloseCode.unauthorized): void {
    this.#ws.close(code, reason);
  }

  // ---- its silence --------------------------------------------------------------------------------------

  /** Asks it whether it is there, if it has been silent for long. When to look again, or why it has to go. */
  listen(now: number): number | "no answer" | "idle" {
    // What is answered without waking us is a sign as well.
    const ponged = this.#ctx.getWebSocketAutoResponseTimestamp(this.#ws)?.getTime() ?? 0;
    const { heard, askedAt } = this.#attachment;
    const verdict = judge({ heard: Math.max(heard, ponged), askedAt }, this.#canBeAsked, now);
    if (verdict !== "ask") return verdict;
    this.#ask();
    this.#save({ ...this.#attachment, askedAt: now });
    return now + LIMITS.pongMs;
  }

  /** False: that was noted before. A socket that is given up may still tell of its end, or never. */
  leave(): boolean {
    if (this.#attachment.left) return false;
    this.#save({ ...this.#attachment, left: true });
    return true;
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  startReading(sessionId: string): ReaderPosition {
    const cursor = this.#attachment.cursors[sessionId];
    return {
      cursor: cursor ? cursorAfter(cursor) : null,
      rests: this.#attachment.asked === true,
    };
  }

  deliver(sessionId: string, { end, frames }: Page): DeliveryResult {
    const { cursors } = this.#attachment;
    const cursor = cursors[sessionId];
    // The page may be here already: its sender was reset before it learnt so. Or a later attachment has begun.
    if (cursor && isBehind(end, cursor)) return "more";
    if (this.#attachment.asked) return "later";
    for (const frame of frames) this.#say(sessionId, frame);
    const unread = frames.reduce((sum, frame) => sum + frame.length, this.#attachment.unread ?? 0);
    const heard = this.#canBeAsked ? this.#attachment.heard : Date.now();
    this.#save({
      ...this.#attachment,
      heard,
      unread,
      cursors: { ...cursors, [sessionId]: end },
    });
    return this.#asksForLife() ? "enough" : "more";
  }

  /**
   * A socket here does not tell how much of what was sent is still on its way, and keeps all of it in memory. So
   * after a good deal the client is asked something, and gets no more before it has answered: a method that
   * it does not know will do. Those who speak an older form may not know that one answers.
   */
  #asksForLife(): boolean {
    if ((this.#attachment.unread ?? 0) < LIMITS.unreadChars || !this.#canBeAsked) return false;
    this.#ask();
    this.#save({ ...this.#attachment, asked: true });
    return true;
  }

  #ask(): void {
    this.#ws.send(`{"jsonrpc":"2.0","id":${STILL_THERE},"method":"${ExtensionMethod.ping}","params":{}}`);
  }

  get #canBeAsked(): boolean {
    const { dialect, control, initialized } = this.#attachment;
    return dialect === null && !control && initialized;
  }

  async #isThere(): Promise<void> {
    this.#save({ ...this.#attachment, asked: undefined, unread: 0 });
    await this.#router.wake();
  }

  #say(sessionId: string, frame: string): void {
    if (this.#control?.tells(frame)) return;
    const { dialect } = this.#attachment;
    if (dialect === null) this.#ws.send(frame);
    else for (const text of translateBack(dialect, frame, sessionId)) this.#ws.send(text);
  }

  // ---- state ------------------------------------------------------------------------------------------

  get state(): ClientState {
    return this.#attachment;
  }

  change(change: Partial<ClientState>): void {
    this.#save({ ...this.#attachment, ...change });
  }

  sessions(): readonly string[] {
    return Object.keys(this.#attachment.cursors);
  }

  opens(sessionId: string): void {
    if (!this.#attachment.cursors[sessionId]) this.opened(sessionId, 0);
  }

  relay(from: string, raw: string): Promise<void> {
    return this.#router.relay(from, raw);
  }

  opened(sessionId: string, attachment: number): void {
    const cursors = { ...this.#attachment.cursors, [sessionId]: { attachment, seq: attachment } };
    this.#save({ ...this.#attachment, cursors });
  }

  /** What it misses it cannot ask for. */
  hasAll(): boolean {
    return true;
  }

  letsGo(sessionId: string): void {
    const { [sessionId]: _, ...cursors } = this.#attachment.cursors;
    this.#save({ ...this.#attachment, cursors });
  }

  leaves(): void {
    this.#save({ ...this.#attachment, cursors: {} });
  }

  #save(attachment: Attachment): void {
    this.#attachment = attachment;
    writeAttachment(this.#ws, attachment);
  }
}

/** Whether a page ends where the client has been already, or belongs to an earlier attachment. */
function isBehind(end: EventCursor, cursor: EventCursor): boolean {
  return (
    end.attachment < cursor.attachment || (end.attachment === cursor.attachment && end.seq <= cursor.seq)
  );
}

const CLIENT = "client";
/** The id of our own question. */
const STILL_THERE = '"acp-edge/ping"';
