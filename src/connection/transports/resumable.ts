import { type AttachmentOf, writeAttachment } from "../../durable/attachments.ts";
import type { Caller } from "../../protocol/caller.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { cursorAfter, type EventCursor, isSameCursor, parseCursor } from "../../protocol/cursor.ts";
import { errorResponse } from "../../protocol/errors.ts";
import type { Resumption } from "../../protocol/internal-headers.ts";
import { FAULTS } from "../../protocol/jsonrpc-faults.ts";
import { accepted, type Result, refused } from "../../protocol/refusal.ts";
import { RESUMABLE, readClientHead, splitMessage } from "../../protocol/resumable-wire.ts";
import type {
  Allowance,
  DeliveryResult,
  FrameMark,
  Handover,
  Page,
  ReaderPosition,
} from "../../protocol/rpc.ts";
import { RPC_VERSION } from "../../protocol/versions.ts";
import { Admission } from "../admission.ts";
import { adoptCaller, type Exchange } from "../client.ts";
import { announceCaller, relayToOthers, wakeSessions } from "../client-sessions.ts";
import { Intake, type IntakeResult, refuseUninitialized } from "../intake.ts";
import { Router } from "../router.ts";
import { newSessionIdSecret } from "../session-ids.ts";
import { type ConnectionParts, StoredClient, UNKNOWN_CONNECTION } from "../stored-client.ts";
import { EXPIRED, isExpired } from "../token-lifetime.ts";
import { OWN, ResumableSocket } from "./resumable-socket.ts";
import { ResumableState } from "./resumable-state.ts";

/** A client that comes back after it has lost its socket, and continues from the cursors that it names. */
export class ResumableClient {
  readonly #parts: ConnectionParts;
  readonly #stored: StoredClient;
  readonly #client: ResumableState;
  readonly #intake: Intake;
  /** Frames are routed in the order in which they came, and acknowledged in that order when sessions have them. */
  #routing: Promise<void> = Promise.resolve();
  #acking: Promise<void> = Promise.resolve();
  /** Number of the last frame that was routed. */
  #routed: number;
  /** Frames that were routed did not reach their session. */
  #isRoutedAgain = false;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.#stored = new StoredClient(parts);
    const client = new ResumableState(parts, this.#stored);
    this.#client = client;
    this.#routed = client.handedOver;
    const { env, lifetime, logins, limits } = parts;
    this.#intake = new Intake({
      client,
      admission: new Admission(env, client, limits),
      router: new Router(env, client, lifetime, logins, limits),
      limits,
    });
  }

  /** Makes a connection, or gives it another socket. Refuses a caller that has no such connection. */
  async accept(handover: Handover, resumption: Resumption): Promise<Result<WebSocket>> {
    const { lifetime, store } = this.#parts;
    if (resumption === "new") {
      const entered = await lifetime.enter(handover);
      if (!entered.ok) return entered;
      this.#create(handover, entered.value);
      return accepted(this.#open());
    }
    if (!store.isFor(handover.caller, "resumable")) return refused(UNKNOWN_CONNECTION);
    const entered = await lifetime.reenter(handover);
    if (!entered.ok) return entered;
    // The connection may have been ended meanwhile.
    if (!store.isFor(handover.caller, "resumable")) {
      await lifetime.end({ ...handover, initialized: false, dialect: null, sent: 0 });
      return refused(UNKNOWN_CONNECTION);
    }
    const socket = this.#open();
    this.#adoptCaller(handover.caller);
    lifetime.begin(this.#client.state);
    return accepted(socket);
  }

  #create(handover: Handover, allowance: Allowance | undefined): void {
    const { store, lifetime } = this.#parts;
    const fresh = { initialized: false, dialect: null, sent: 0, resumable: true } as const;
    store.create({ ...handover, ...fresh, sessionIds: newSessionIdSecret() }, Date.now());
    if (allowance) this.#client.change({ allowance });
    lifetime.begin(this.#client.state);
  }

  /** Makes a socket for the client, in place of the current one. Returns the client's end. */
  #open(): WebSocket {
    const { ctx, deadlines, limits } = this.#parts;
    for (const old of ctx.getWebSockets(RESUMABLE)) old.close(CloseCode.abandoned, "replaced");
    const { 0: client, 1: server } = new WebSocketPair();
    ctx.acceptWebSocket(server, [RESUMABLE]);
    // A heartbeat is answered without waking the object.
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    const attachment: AttachmentOf<"resumable"> = {
      kind: "resumable",
      heard: Date.now(),
      greeted: false,
      sent: this.#client.handedOver,
      chars: 0,
      acked: 0,
      own: 0,
      cursors: {},
      allowance: this.#client.allowance,
    };
    writeAttachment(server, attachment);
    this.#client.setSocket(new ResumableSocket(server, attachment, limits));
    deadlines.set("idle", Date.now() + limits.resumeMs);
    void this.checkLiveness();
    return client;
  }

  /** Whether the client has a socket. */
  get isConnected(): boolean {
    return this.#client.socket() !== undefined;
  }

  get client(): ResumableState {
    return this.#client;
  }

  // ---- from the client --------------------------------------------------------------------------------

  async receive(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const socket = this.#client.socket();
    if (socket?.ws !== ws || !this.#stored.exists) return;
    if (isExpired(this.#client.state, Date.now())) return this.hangUp(EXPIRED);
    socket.touch(Date.now());
    const { head, lines } = typeof message === "string" ? splitMessage(message) : { head: null, lines: [] };
    const said = readClientHead(head);
    if (!said || (said.t === "hello") === socket.greeted)
      return socket.close(CloseCode.badMessage, "unknown message");
    switch (said.t) {
      case "hello":
        return this.#hello(socket, said.own, said.cursors);
      case "ack":
        return this.#acked(socket, said.chars, said.own);
      case "lines":
        return this.#frames(socket, said.first, lines);
    }
  }

  /** The client owns its cursors: its sessions continue from wherever it says. */
  async #hello(socket: ResumableSocket, own: number, texts: Record<string, string>): Promise<void> {
    const attached = new Set(this.#client.sessions());
    const cursors: Record<string, EventCursor> = {};
    for (const [sessionId, text] of Object.entries(texts)) {
      const cursor = parseCursor(text);
      if (cursor && attached.has(sessionId)) cursors[sessionId] = cursor;
    }
    socket.greet(cursors, own);
    this.#routing = this.#routing.then(() => {
      if (this.#isRoutedAgain) this.#routed = this.#client.handedOver;
      this.#isRoutedAgain = false;
    });
    const { connection } = this.#client.state;
    socket.say({ t: "welcome", connection, received: this.#client.handedOver });
    this.#parts.store.setSent(OWN, own);
    this.#flush(socket);
    await wakeSessions(this.#parts.env, this.#client);
  }

  #acked(socket: ResumableSocket, chars: number, own: number): Promise<void> | void {
    const { store, env } = this.#parts;
    const wasFull = !socket.hasRoom;
    socket.acknowledgePages(chars);
    if (own > store.stream(OWN).sent) {
      store.setSent(OWN, own);
      store.trim();
    }
    if (!wasFull || !socket.hasRoom) return;
    this.#flush(socket);
    return wakeSessions(env, this.#client);
  }

  async #frames(socket: ResumableSocket, first: number, lines: readonly string[]): Promise<void> {
    // The client asks for more than it reads.
    if (this.#parts.store.isFull()) return socket.close(CloseCode.tryAgainLater, "read your messages first");
    const handedOver: Promise<void>[] = [];
    const routed = this.#routing.then(async () => {
      // Earlier frames of this socket were not taken. They come again on another socket, and these with them.
      if (socket.failure) throw socket.failure;
      for (const [i, text] of lines.entries()) {
        const number = first + i;
        if (number <= this.#routed) continue;
        await this.#frame(text, {
          number,
          answer: (answer) => this.#answer(number, answer),
          tell: (text) => this.#answer(null, text),
          waitFor: (promise) => handedOver.push(promise),
          undelivered: () => this.#undelivered(socket),
        });
        this.#routed = number;
      }
    });
    this.#routing = routed.catch((error: Error) => {
      socket.failure = error;
      if (error instanceof QuotaExceeded) return socket.close(CloseCode.policyViolation, error.message);
      console.error("connection failed", { error: String(error) });
      socket.close(CloseCode.internalError, "internal error");
    });
    this.#acking = Promise.all([this.#acking, routed.then(() => Promise.all(handedOver))]).then(
      () => {
        // An acknowledgement covers all frames before it.
        if (!socket.failure) this.#client.acknowledge(first + lines.length - 1);
      },
      () => {},
    );
    await this.#acking;
  }

  /**
   * A session has not responded for long. The frames that are not acknowledged come again on the client's next socket,
   * and are routed again: sessions recognise those that they have.
   */
  #undelivered(socket: ResumableSocket): void {
    this.#isRoutedAgain = true;
    // The client may have come back meanwhile and sent the frames again.
    for (const one of new Set([socket, this.#client.socket()])) {
      if (one) one.failure = new Error("session does not respond");
      one?.close(CloseCode.tryAgainLater, "session does not respond");
    }
  }

  /** Most rules are enforced by answers. A frame beyond the quota stays unacknowledged, and so comes again. */
  async #frame(text: string, exchange: Exchange): Promise<void> {
    const result: IntakeResult = await this.#intake.receive(text, exchange);
    switch (result.kind) {
      case "taken":
      case "too-long":
        return;
      case "id-too-long":
        return exchange.answer(errorResponse("null", FAULTS["not-object"]));
      case "uninitialized":
        return refuseUninitialized(result.frame, exchange);
      case "quota-exceeded":
        throw new QuotaExceeded();
    }
  }

  /** A request that comes a second time has its answer already: the store keeps one answer per number. */
  #answer(number: number | null, text: string): void {
    if (!this.#stored.exists) return;
    this.#parts.store.put(OWN, text, number);
    const socket = this.#client.socket();
    if (socket) this.#flush(socket);
  }

  /** Sends the connection's own messages, a page at a time, as long as there is room. */
  #flush(socket: ResumableSocket): void {
    while (socket.hasRoom) {
      const messages = this.#parts.store.unsent(OWN, socket.own);
      const last = messages.at(-1);
      if (!last) return;
      const texts = messages.map(({ text }) => text);
      socket.pageOwn(last.n, texts);
    }
  }

  // ---- the end of a socket, and of the connection -----------------------------------------------------

  /** A client that closes normally is gone for good. A client that was cut off comes back. */
  async closed(ws: WebSocket, code: number): Promise<void> {
    if (!this.#stored.exists || !this.#client.isCurrent(ws)) return;
    this.#client.dropSocket(ws);
    if (code === CloseCode.normal) return this.end();
    this.#client.saveWithoutSocket();
    this.#parts.deadlines.set("idle", Date.now() + this.#parts.limits.resumeMs);
  }

  /** Closes a socket whose client sends no heartbeat. The client comes back on another socket. */
  async checkLiveness(): Promise<void> {
    const { ctx, deadlines, limits } = this.#parts;
    const socket = this.#client.socket();
    if (!socket) return;
    const ponged = ctx.getWebSocketAutoResponseTimestamp(socket.ws)?.getTime() ?? 0;
    const until = Math.max(socket.heard, ponged) + limits.resumeSilentMs;
    if (until > Date.now()) return deadlines.set("liveness", until);
    socket.close(CloseCode.goingAway, "no answer");
    await this.closed(socket.ws, CloseCode.goingAway);
  }

  /** Ends the connection of a client that has been away for long. */
  async expire(): Promise<void> {
    const { deadlines, limits } = this.#parts;
    if (this.#client.socket()) deadlines.set("idle", Date.now() + limits.resumeMs);
    else await this.end();
  }

  /** Ends the connection for good: a client that comes back finds nothing. */
  async end(reason = "connection closed", code: number = CloseCode.unauthorized): Promise<void> {
    if (!this.#stored.exists) return;
    const { state } = this.#client;
    this.hangUp(reason, code);
    await this.#stored.end(state);
  }

  /** Closes the socket. The client may come back with another token, and continues where it was. */
  hangUp(reason: string, code: number = CloseCode.unauthorized): void {
    this.#client.socket()?.close(code, reason);
  }

  /** A client may come back with another token, and other rights. */
  #adoptCaller(caller: Caller): void {
    const before = adoptCaller(this.#client, caller);
    if (JSON.stringify(this.#client.state.caller) !== JSON.stringify(before))
      this.#parts.ctx.waitUntil(announceCaller(this.#parts.env, this.#client));
  }

  /** Notifies the client of something about its token. A client that is away comes back with a token that is valid. */
  notify(text: (caller: Caller) => string): void {
    const socket = this.#client.socket();
    const { initialized, caller } = this.#client.state;
    if (socket?.greeted && initialized) socket.pageOwn(socket.own, [text(caller)]);
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  sessions(): readonly string[] {
    return this.#client.sessions();
  }

  startReading(sessionId: string): ReaderPosition | null {
    if (!this.#stored.exists) return null;
    this.#stored.attach(sessionId);
    this.#client.socket()?.startReading(sessionId);
    return this.#position(sessionId);
  }

  #position(sessionId: string): ReaderPosition {
    const socket = this.#client.socket();
    const cursor = socket?.cursor(sessionId);
    return {
      v: RPC_VERSION,
      cursor: cursor ? cursorAfter(cursor) : null,
      rests: !socket?.hasRoom,
      marks: { awaitsAnswers: false },
    };
  }

  deliver(sessionId: string, { end, frames, marks }: Page): DeliveryResult {
    if (!this.#stored.exists) return "gone";
    const socket = this.#client.socket();
    if (!socket?.hasRoom || marks?.kind !== "in-turn") return "later";
    const cursor = socket.cursor(sessionId);
    // The client came back in between and named another cursor, which the session has yet to ask for.
    if (cursor === undefined) return "later";
    if (cursor && !isSameCursor(cursorAfter(cursor), marks.after)) return "later";
    for (const page of pages(frames, marks.frames, end.seq, this.#parts.limits.resumePageChars)) {
      const messages = this.#stored.inDialect(sessionId, page.frames);
      socket.page(sessionId, { ...end, seq: page.seq }, messages);
    }
    socket.moveTo(sessionId, end);
    return socket.hasRoom ? "more" : "enough";
  }

  /** Relays a login or logout that the agent of session `from` has accepted. */
  async relay(from: string, raw: string, agent?: string): Promise<void> {
    if (this.#stored.exists)
      await relayToOthers(this.#parts.env, this.#client, this.#parts.logins, from, raw, agent);
  }
}

/** Cuts a page of the log into small ones of whole events. */
function* pages(
  frames: readonly string[],
  marks: readonly FrameMark[],
  last: number,
  maxChars: number,
): Generator<{ frames: string[]; seq: number }> {
  let [start, end, chars] = [0, 0, 0];
  for (const [i, frame] of frames.entries()) {
    if (end > start && chars + frame.length > maxChars) {
      yield { frames: frames.slice(start, end), seq: (marks[end - 1] as FrameMark).seq };
      chars = frames.slice(end, i).reduce((sum, one) => sum + one.length, 0);
      start = end;
    }
    chars += frame.length;
    if (marks[i]?.part === null) end = i + 1;
  }
  yield { frames: frames.slice(start), seq: last };
}

class QuotaExceeded extends Error {
  constructor() {
    super("quota exceeded");
  }
}
