import {
  type AttachmentOf,
  type ClientState,
  readAttachment,
  writeAttachment,
} from "../../durable/attachments.ts";
import type { Deadlines } from "../../durable/deadlines.ts";
import { sessionObject } from "../../durable/object-names.ts";
import type { Caller } from "../../protocol/caller.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { cursorAfter, type EventCursor, isSameCursor, parseCursor } from "../../protocol/cursor.ts";
import { translateBack } from "../../protocol/dialects/index.ts";
import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { isFault, readFrame } from "../../protocol/frame.ts";
import type { Resumption } from "../../protocol/internal-headers.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { RESUMABLE, readClientHead, splitMessage } from "../../protocol/resumable-wire.ts";
import type {
  Allowance,
  DeliveryResult,
  FrameMark,
  Handover,
  Page,
  ReaderPosition,
} from "../../protocol/rpc.ts";
import { type Client, type Exchange, rightsOf } from "../client.ts";
import type { ConnectionStore } from "../connection-store.ts";
import { FAULTS, idTooLong } from "../jsonrpc-faults.ts";
import { QUOTA_EXCEEDED, QuotaExceeded } from "../message-cost.ts";
import { tellSessions } from "../methods/renew-token.ts";
import { Router } from "../router.ts";
import { type ConnectionDeadline, EXPIRED, type TokenLife } from "../token-lifetime.ts";
import { Link, OWN } from "./resumable-socket.ts";

/** A client that comes back after it has lost its socket, and goes on from where it says it was. */
export class ResumableClient implements Client {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #store: ConnectionStore;
  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #life: TokenLife;
  readonly #router: Router;
  /** Frames are routed in the order they came, and acknowledged in that order when sessions have them. */
  #routing: Promise<void> = Promise.resolve();
  #acking: Promise<void> = Promise.resolve();
  #link: Link | undefined;
  /** Number of the last frame that was routed, and of the last one that all up to it are with their sessions. */
  #sent: number;
  #handedOver: number;
  /** What is left of its allowance. It is kept on the socket; in the row only while there is none. */
  #allowance: Allowance | undefined;

  constructor(
    ctx: DurableObjectState,
    env: Env,
    store: ConnectionStore,
    deadlines: Deadlines<ConnectionDeadline>,
    life: TokenLife,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#store = store;
    this.#deadlines = deadlines;
    this.#life = life;
    this.#router = new Router(env, this);
    this.#handedOver = Math.max(store.state?.sent ?? 0, this.#socket()?.sent ?? 0);
    this.#sent = this.#handedOver;
    this.#allowance = this.#socket()?.allowance ?? store.state?.allowance;
  }

  /** A new connection, or another socket for the one that is here; undefined if none is here for the caller. */
  accept(handover: Handover, resumption: Resumption): WebSocket | undefined {
    const resume = resumption === "again";
    if (resume && !this.#store.isFor(handover.caller, "resumable")) return undefined;
    if (!resume)
      this.#store.create(
        { ...handover, initialized: false, dialect: null, sent: 0, resumable: true },
        Date.now(),
      );
    for (const old of this.#ctx.getWebSockets(LINK)) old.close(CloseCode.abandoned, "replaced");
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [LINK]);
    // Whoever only wants to know that we are here does not wake us.
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    const attachment: AttachmentOf<"resumable"> = {
      kind: "resumable",
      heard: Date.now(),
      greeted: false,
      sent: this.#handedOver,
      chars: 0,
      acked: 0,
      own: 0,
      cursors: {},
      allowance: this.#allowance,
    };
    writeAttachment(server, attachment);
    this.#link = new Link(server, attachment);
    if (resume) this.#goOnWith(handover.caller);
    this.#life.begin(this.state);
    this.#deadlines.set("idle", Date.now() + LIMITS.resumeMs);
    void this.listen();
    return client;
  }

  // ---- from the client --------------------------------------------------------------------------------

  async receive(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const link = this.#socket();
    if (link?.socket !== socket || !this.#store.state) return;
    if (this.state.caller.expires * 1000 <= Date.now()) return this.hangUp(EXPIRED);
    link.hears(Date.now());
    const { head, lines } = typeof message === "string" ? splitMessage(message) : { head: null, lines: [] };
    const said = readClientHead(head);
    if (!said || (said.t !== "hello" && !link.greeted))
      return link.close(CloseCode.badMessage, "unknown message");
    switch (said.t) {
      case "hello":
        return this.#hello(link, said.own, said.cursors);
      case "ack":
        return this.#acked(link, said.chars, said.own);
      case "lines":
        return this.#frames(link, said.first, lines);
    }
  }

  /** Its cursors are its own to say: the sessions read on from there. */
  async #hello(link: Link, own: number, said: Record<string, string>): Promise<void> {
    const attached = new Set(this.#store.attached());
    const cursors: Record<string, EventCursor> = {};
    for (const [sessionId, text] of Object.entries(said)) {
      const cursor = parseCursor(text);
      if (cursor && attached.has(sessionId)) cursors[sessionId] = cursor;
    }
    link.greet(cursors, own);
    link.say({ t: "welcome", connection: this.state.connection, received: this.#handedOver });
    this.#store.setSent(OWN, own);
    this.#flush(link);
    await this.#router.wake();
  }

  #acked(link: Link, chars: number, own: number): Promise<void> | void {
    const wasFull = !link.hasRoom;
    link.acked(chars);
    if (own > this.#store.stream(OWN).sent) {
      this.#store.setSent(OWN, own);
      this.#store.trim();
    }
    if (!wasFull || !link.hasRoom) return;
    this.#flush(link);
    return this.#router.wake();
  }

  async #frames(link: Link, first: number, lines: readonly string[]): Promise<void> {
    // It has asked for more than it wants to read.
    if (this.#store.isFull()) return link.close(CloseCode.tryAgainLater, "read your messages first");
    const handedOver: Promise<void>[] = [];
    const routed = this.#routing.then(async () => {
      // Those before these were not taken. They come again on another socket, and these with them.
      if (link.failure) throw link.failure;
      for (const [i, raw] of lines.entries()) {
        const number = first + i;
        if (number <= this.#sent) continue;
        await this.#frame(raw, {
          number,
          answer: (text) => this.#answer(number, text),
          waitFor: (promise) => handedOver.push(promise),
        });
        this.#sent = number;
      }
    });
    this.#routing = routed.catch((error: Error) => {
      link.failure = error;
      // It stays unacknowledged, and so comes again.
      if (error instanceof QuotaExceeded) return link.close(QUOTA_EXCEEDED.code, QUOTA_EXCEEDED.reason);
      console.error("connection failed", { error: String(error) });
      link.close(CloseCode.internalError, "internal error");
    });
    this.#acking = Promise.all([this.#acking, routed.then(() => Promise.all(handedOver))]).then(
      () => this.#received(first + lines.length - 1),
      () => {},
    );
    await this.#acking;
  }

  #received(number: number): void {
    this.#handedOver = Math.max(this.#handedOver, number);
    const link = this.#socket();
    if (link?.greeted) link.received(this.#handedOver);
  }

  async #frame(raw: string, exchange: Exchange): Promise<void> {
    if (raw.length > LIMITS.frameChars) {
      const message = `Message exceeds ${LIMITS.frameChars} characters`;
      return exchange.answer(errorResponse("null", { code: ErrorCode.invalidRequest, message }));
    }
    const frame = readFrame(raw);
    if (!(await this.#router.admit(raw.length, isFault(frame) ? undefined : frame, exchange))) return;
    if (isFault(frame)) return exchange.answer(errorResponse("null", FAULTS[frame.fault]));
    if (frame.kind === "invalid" || idTooLong(frame))
      return exchange.answer(errorResponse("null", FAULTS["not-object"]));
    if (frame.method === "initialize" && frame.kind === "request" && frame.value.id !== null)
      return this.#router.initialize(frame, exchange);
    if (this.state.initialized) return this.#router.route(frame, exchange);
    const error = { code: ErrorCode.invalidRequest, message: "The connection is not initialized" };
    if (frame.kind === "request") exchange.answer(errorResponse(frame.idText, error));
  }

  /** A request that came a second time has its answer already. */
  #answer(number: number, text: string): void {
    if (!this.#store.state) return;
    this.#store.put(OWN, text, number);
    const link = this.#socket();
    if (link) this.#flush(link);
  }

  /** A page at a time, as long as there is room. */
  #flush(link: Link): void {
    while (link.hasRoom) {
      const messages = this.#store.unsent(OWN, link.own);
      const last = messages.at(-1);
      if (!last) return;
      const texts = messages.map(({ text }) => text);
      link.tell(last.n, texts);
    }
  }

  /** A client that has said goodbye is gone for good; one that was cut off comes back. */
  async closed(socket: WebSocket, code: number): Promise<void> {
    const mine = this.#link === undefined || this.#link.socket === socket;
    if (!this.#store.state || !mine) return;
    // Should this be what has woken us, nobody has looked at the socket yet.
    this.#allowance ??= readAttachment(socket, "resumable")?.allowance;
    this.#link = undefined;
    if (code === CloseCode.normal) return this.end();
    this.#save({ sent: this.#handedOver });
    this.#deadlines.set("idle", Date.now() + LIMITS.resumeMs);
  }

  /** A socket without a heartbeat is lost, whether or not anybody has told us. The client comes back on another. */
  async listen(): Promise<void> {
    const link = this.#socket();
    if (!link) return;
    const ponged = this.#ctx.getWebSocketAutoResponseTimestamp(link.socket)?.getTime() ?? 0;
    const until = Math.max(link.heard, ponged) + LIMITS.resumeSilentMs;
    if (until > Date.now()) return this.#deadlines.set("silence", until);
    link.close(CloseCode.goingAway, "no answer");
    await this.closed(link.socket, CloseCode.goingAway);
  }

  /** Forgets a client that has not come back for long. */
  async expire(): Promise<void> {
    if (this.#socket()) this.#deadlines.set("idle", Date.now() + LIMITS.resumeMs);
    else await this.end();
  }

  /** For good: one that comes back finds nothing. */
  async end(reason = "connection closed", code: number = CloseCode.unauthorized): Promise<void> {
    if (!this.#store.state) return;
    const { state } = this;
    const sessions = this.sessions().map((id) => this.#session(id));
    this.hangUp(reason, code);
    this.#store.forget();
    this.#deadlines.forget();
    await this.#ctx.storage.deleteAll();
    await Promise.allSettled([
      this.#life.end(state),
      ...sessions.map((session) => session.detach(state.connection)),
    ]);
  }

  // ---- its token ----------------------------------------------------------------------------------------

  renew(caller: Caller): void {
    const { caller: before } = this.state;
    this.change({ caller: rightsOf(caller, this.state) });
    this.#life.goOn(this.state, before);
  }

  /** It may come back with another token, and other rights. */
  #goOnWith(caller: Caller): void {
    const { caller: before } = this.state;
    this.change({ caller: rightsOf(caller, this.state) });
    if (JSON.stringify(this.state.caller) !== JSON.stringify(before))
      this.#ctx.waitUntil(tellSessions(this.#env, this));
  }

  /** Of no use to a client that is away: what comes back has a token that is good. So it is not kept. */
  notify(text: (caller: Caller) => string): void {
    const link = this.#socket();
    if (link?.greeted && this.state.initialized) link.tell(link.own, [text(this.state.caller)]);
  }

  /** Its token has expired. With another one it goes on where it was. */
  hangUp(reason: string, code: number = CloseCode.unauthorized): void {
    this.#socket()?.close(code, reason);
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  startReading(sessionId: string): ReaderPosition | null {
    if (!this.#store.state) return null;
    this.#attach(sessionId);
    const link = this.#socket();
    link?.startReading(sessionId);
    const cursor = link?.cursor(sessionId);
    return {
      cursor: cursor ? cursorAfter(cursor) : null,
      rests: !link?.hasRoom,
      marks: { awaitsAnswers: false },
    };
  }

  deliver(sessionId: string, { end, frames, marks }: Page): DeliveryResult {
    if (!this.#store.state) return "gone";
    const link = this.#socket();
    if (!link?.hasRoom || marks?.kind !== "in-turn") return "later";
    const cursor = link.cursor(sessionId);
    // The client has come back in between, and says that it was elsewhere; the session is going to ask where.
    if (cursor === undefined) return "later";
    if (cursor && !isSameCursor(cursorAfter(cursor), marks.after)) return "later";
    for (const page of pages(frames, marks.frames, end.seq))
      link.page(sessionId, { ...end, seq: page.seq }, this.#inDialect(sessionId, page.frames));
    link.moveTo(sessionId, end);
    return link.hasRoom ? "more" : "enough";
  }

  async relay(from: string, raw: string): Promise<void> {
    if (this.#store.state) await this.#router.relay(from, raw);
  }

  #inDialect(sessionId: string, frames: string[]): string[] {
    const { dialect } = this.state;
    return dialect === null ? frames : frames.flatMap((frame) => translateBack(dialect, frame, sessionId));
  }

  // ---- state ------------------------------------------------------------------------------------------

  get state(): ClientState {
    const { state } = this.#store;
    if (!state) throw new Error("There is no connection here");
    return this.#allowance ? { ...state, allowance: this.#allowance } : state;
  }

  /** The number of the last frame needs no write: sessions know a frame that comes again. */
  change({ sent: _, allowance, ...change }: Partial<ClientState>): void {
    if (allowance) this.#hold(allowance);
    if (Object.keys(change).length > 0) this.#save(change);
  }

  #hold(allowance: Allowance): void {
    this.#allowance = allowance;
    const link = this.#socket();
    if (link) link.holds(allowance);
    else this.#save({});
  }

  #save(change: Partial<ClientState>): void {
    const { allowance, ...state } = this.state;
    const kept = allowance && !this.#socket() && { allowance };
    this.#store.save({ ...state, ...change, ...kept }, Date.now());
  }

  sessions(): readonly string[] {
    return this.#store.attached();
  }

  opens(sessionId: string): void {
    this.#store.attach(sessionId);
  }

  opened(sessionId: string, attachment: number): void {
    this.#store.attach(sessionId);
    this.#socket()?.moveTo(sessionId, { attachment, seq: attachment });
  }

  hasAll(): boolean {
    return this.#socket()?.hasAll === true;
  }

  letsGo(sessionId: string): void {
    this.#store.detach(sessionId);
    this.#socket()?.letsGo(sessionId);
  }

  #attach(sessionId: string): void {
    if (!this.#store.isAttached(sessionId)) this.#store.attach(sessionId);
  }

  #socket(): Link | undefined {
    if (!this.#link) {
      const socket = this.#ctx.getWebSockets(LINK).find((one) => one.readyState === WebSocket.OPEN);
      const attachment = socket && readAttachment(socket, "resumable");
      if (attachment) this.#link = new Link(socket, attachment);
    }
    return this.#link?.socket.readyState === WebSocket.OPEN ? this.#link : undefined;
  }

  #session(sessionId: string) {
    return sessionObject(this.#env, this.state.caller.tenant, sessionId);
  }
}

/** Cuts a page of the log into small ones, each of whole events. */
function* pages(
  frames: readonly string[],
  marks: readonly FrameMark[],
  last: number,
): Generator<{ frames: string[]; seq: number }> {
  let [start, end, chars] = [0, 0, 0];
  for (const [i, frame] of frames.entries()) {
    if (end > start && chars + frame.length > LIMITS.resumePageChars) {
      yield { frames: frames.slice(start, end), seq: (marks[end - 1] as FrameMark).seq };
      chars = frames.slice(end, i).reduce((sum, one) => sum + one.length, 0);
      start = end;
    }
    chars += frame.length;
    if (marks[i]?.part === null) end = i + 1;
  }
  yield { frames: frames.slice(start), seq: last };
}

/** The tag of a socket, and what it speaks. */
const LINK = RESUMABLE;
