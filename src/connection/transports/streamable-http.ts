import type { ClientState } from "../../durable/attachments.ts";
import type { Deadlines } from "../../durable/deadlines.ts";
import { sessionObject } from "../../durable/object-names.ts";
import type { Caller } from "../../protocol/caller.ts";
import { type Cursor, cursorAfter, isSameCursor } from "../../protocol/cursor.ts";
import { translateBack } from "../../protocol/dialects/index.ts";
import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { type Frame, mustReadFrame, oneLine } from "../../protocol/frame.ts";
import type { StreamRequest } from "../../protocol/internal-headers.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { DeliveryResult, FrameMark, Handover, Page, ReaderPosition } from "../../protocol/rpc.ts";
import { type Client, type Exchange, rightsOf } from "../client.ts";
import type { ConnectionStore } from "../connection-store.ts";
import { FAULTS } from "../jsonrpc-faults.ts";
import { QuotaExceeded } from "../message-cost.ts";
import { tellSessions } from "../methods/renew-token.ts";
import { Router } from "../router.ts";
import type { ConnectionDeadline, TokenLife } from "../token-lifetime.ts";
import { Readers, type StreamReader } from "./event-stream-readers.ts";
import { answersOnConnection, badPost } from "./post-validation.ts";
import { cursorAfterFrame, eventId, parseEventId, type StreamPosition } from "./stream-position.ts";

/** A message of a client, and the session it names in a header. */
export type Post = { caller: Caller; session: string | undefined; raw: string };
/** An HTTP status, with the reason where it is not a success, and when to try again if that is known. */
export type Outcome = {
  status: 202 | 400 | 404 | 409 | 410 | 429;
  reason: string;
  retryAfterMs?: number;
};

/**
 * A client that posts its messages and reads the answers on event streams: one of the connection, and one per
 * session. Messages of a session are not copied: its log is their queue, and a stream without a reader is a
 * cursor that rests.
 */
export class HttpClient implements Client {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #store: ConnectionStore;
  readonly #readers: Readers;
  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #life: TokenLife;
  readonly #router: Router;
  /** Messages are routed in the order they came, also while one waits for the workspace. */
  #routing: Promise<void> = Promise.resolve();

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
    this.#readers = new Readers(ctx);
    this.#router = new Router(env, this);
  }

  // ---- requests ---------------------------------------------------------------------------------------

  /** Makes the connection; resolves to the answer. */
  async initialize(handover: Handover, raw: string): Promise<string> {
    this.#store.create({ ...handover, initialized: false, dialect: null, sent: 0 }, Date.now());
    this.#life.begin(this.state);
    this.#deadlines.set("idle", Date.now() + LIMITS.connectionIdleMs);
    let answer = "";
    const exchange: Exchange = {
      answer: (text) => {
        answer = text;
      },
      waitFor: () => {},
    };
    const frame = mustReadFrame(raw);
    if (frame.kind !== "request") throw new Error("initialize is a request");
    if (await this.#router.admit(raw.length, frame, exchange)) await this.#router.initialize(frame, exchange);
    return answer;
  }

  async post({ caller, session, raw }: Post): Promise<Outcome> {
    if (!this.#store.isFor(caller, "http")) return UNKNOWN;
    const frame = mustReadFrame(raw);
    const reason = badPost(frame, session, (id) => this.#store.isAttached(id));
    if (reason !== undefined) return { status: 400, reason };
    const asks = frame.kind === "request" || frame.kind === "invalid";
    if (asks && this.#store.isFull()) return { status: 429, reason: "Read your event streams first" };
    this.#goOnWith(caller);
    const handedOver: Promise<void>[] = [];
    const exchange: Exchange = {
      session,
      answer: (text) => this.#answer(frame, session, text),
      waitFor: (promise) => handedOver.push(promise),
    };
    try {
      await this.#inOrder(() => this.#receive(frame, exchange));
      await Promise.all(handedOver);
    } catch (error) {
      if (error instanceof QuotaExceeded)
        return { status: 429, reason: error.message, retryAfterMs: error.retryAfterMs };
      // The connection may have been ended in between.
      if (this.#store.state) throw error;
      return UNKNOWN;
    }
    // A cursor may be resting, and has to look for the answer.
    if (frame.kind === "request" && (session === undefined || answersOnConnection(frame)))
      for (const sessionId of this.#store.expecting()) this.#lookForAnswers(sessionId);
    return ACCEPTED;
  }

  /** The reader's end of a stream, or why there is none. */
  async open({ caller, session = "", lastEventId }: StreamRequest): Promise<WebSocket | Outcome> {
    if (!this.#store.isFor(caller, "http")) return UNKNOWN;
    if (session.length > LIMITS.idChars)
      return { status: 400, reason: `Ids have at most ${LIMITS.idChars} characters` };
    // Who knows the last event is the one who was reading: its old response has not been missed yet.
    if (lastEventId === undefined && (await this.#isRead(session))) return TAKEN;
    if (!this.#store.isFor(caller, "http")) return UNKNOWN;
    if (!this.#readers.of(session) && this.#readers.count > LIMITS.sessionsPerConnection)
      return { status: 429, reason: "Too many event streams" };
    if (caller.expires > this.state.caller.expires) this.#goOnWith(caller);
    const stream = this.#store.stream(session);
    const last = this.#readers.last(session);
    let cursor = last ? last.cursor : stream.cursor;
    if (lastEventId !== undefined) {
      const from = parseEventId(lastEventId);
      if (!from) return { status: 400, reason: "Unknown Last-Event-ID" };
      if (from.sent < stream.dropped) return { status: 410, reason: "What came next is no longer kept" };
      if (from.sent < stream.sent) this.#store.setSent(session, from.sent);
      cursor = from.cursor;
    }
    return this.#readers.accept(session, cursor);
  }

  /** Whether somebody reads the stream who is there, or came while that was found out. */
  async #isRead(session: string): Promise<boolean> {
    const reader = this.#readers.of(session);
    if (!reader) return false;
    if (await reader.isThere()) return true;
    return ![reader, undefined].includes(this.#readers.of(session));
  }

  /** Ends the connection. Sessions go on: a client that leaves decides nothing. */
  async remove(caller: Caller): Promise<Outcome> {
    if (!this.#store.isFor(caller, "http")) return UNKNOWN;
    await this.end();
    return ACCEPTED;
  }

  /** Forgets the connection if nobody has used it for long; until then, asks again later. */
  async expire(): Promise<void> {
    if (!this.#store.state) return;
    const used = this.#readers.count > 0 ? Date.now() : this.#store.seen();
    const until = used + LIMITS.connectionIdleMs;
    if (until > Date.now()) this.#deadlines.set("idle", until);
    else await this.end();
  }

  // ---- its token ----------------------------------------------------------------------------------------

  renew(caller: Caller): void {
    const { caller: before } = this.state;
    this.change({ caller: rightsOf(caller, this.state) });
    this.#life.goOn(this.state, before);
  }

  /** Each request has a token of its own: it is the client's from then on, and the latest one counts. */
  #goOnWith(caller: Caller): void {
    const { caller: before } = this.state;
    this.change({ caller: rightsOf(caller, this.state) });
    const { scopes } = this.state.caller;
    const isNew = caller.expires > before.expires || scopes.join() !== before.scopes.join();
    if (caller.expires > before.expires) this.#life.begin(this.state);
    if (isNew) this.#ctx.waitUntil(tellSessions(this.#env, this));
  }

  notify(text: (caller: Caller) => string): void {
    if (this.#store.state) this.#put("", text(this.state.caller));
  }

  /** Nobody reads on with a token that has expired. A client that comes with another one finds all as it was. */
  hangUp(reason: string): void {
    this.#readers.hangUp(reason);
  }

  #inOrder(work: () => void | Promise<void>): Promise<void> {
    const done = this.#routing.then(work);
    this.#routing = done.catch(() => {});
    return done;
  }

  async #receive(frame: Frame, exchange: Exchange): Promise<void> {
    if (!(await this.#router.admit(frame.raw.length, frame, exchange))) return;
    if (frame.kind === "invalid") return exchange.answer(errorResponse("null", FAULTS["not-object"]));
    if (!this.state.initialized) {
      const error = { code: ErrorCode.invalidRequest, message: "The connection is not initialized" };
      return frame.kind === "request" ? exchange.answer(errorResponse(frame.idText, error)) : undefined;
    }
    if (frame.method === "session/load" && frame.kind === "request" && frame.sessionId !== undefined)
      this.#store.expect(frame.sessionId, frame.idText);
    return this.#router.route(frame, exchange);
  }

  async end(reason = "connection closed"): Promise<void> {
    if (!this.#store.state) return;
    const { state } = this;
    const { connection } = state;
    const sessions = this.#store.attached().map((id) => this.#session(id));
    this.#readers.dismiss(reason);
    this.#store.forget();
    this.#deadlines.forget();
    await this.#ctx.storage.deleteAll();
    await Promise.allSettled([
      this.#life.end(state),
      ...sessions.map((session) => session.detach(connection)),
    ]);
  }

  // ---- readers ----------------------------------------------------------------------------------------

  /** A reader has room for a page. */
  async next(socket: WebSocket): Promise<void> {
    const reader = this.#readers.at(socket);
    if (!reader || !this.#store.state) return;
    reader.wait();
    this.#flush(reader);
    if (reader.waiting && this.#store.isAttached(reader.stream))
      await this.#session(reader.stream).wake(this.state.connection);
  }

  readerGone(socket: WebSocket): void {
    const reader = this.#readers.at(socket);
    if (!reader || !this.#store.state) return;
    this.#readers.remove(reader);
    this.#store.setCursor(reader.stream, reader.cursor);
    this.change({});
    this.#lookForAnswers(reader.stream);
  }

  /** Sends what waits for the reader, if it wants it. */
  #flush(reader: StreamReader | undefined): void {
    if (!reader?.waiting) return;
    const messages = this.#store.unsent(reader.stream);
    const last = messages.at(-1);
    if (!last) return;
    const { cursor } = reader;
    reader.send(messages.map(({ n, text }) => event({ sent: n, cursor }, text)).join(""), cursor);
    this.#store.setSent(reader.stream, last.n);
    this.#store.trim();
  }

  #put(stream: string, text: string): void {
    this.#store.put(stream, text);
    this.#flush(this.#readers.of(stream));
  }

  #answer(frame: Frame, session: string | undefined, text: string): void {
    if (!this.#store.state) return;
    const own = frame.kind === "invalid" || answersOnConnection(frame) || session === undefined;
    if (frame.idText !== undefined) this.#store.unexpect(frame.idText);
    this.#put(own ? "" : session, text);
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  startReading(sessionId: string): ReaderPosition | null {
    if (!this.#store.state) return null;
    if (!this.#store.isAttached(sessionId)) this.#store.attach(sessionId);
    const reader = this.#readers.of(sessionId);
    return {
      cursor: this.#cursor(sessionId, reader),
      // Who reads the session's stream gets its answers in their turn, after what comes before them.
      rests: !reader?.waiting,
      marks: { awaitsAnswers: !reader && this.#store.expects(sessionId) },
    };
  }

  deliver(sessionId: string, { end, frames, marks }: Page): DeliveryResult {
    if (!this.#store.state) return "gone";
    if (!marks) return "later";
    const marked = marks.frames.map((mark, i) => ({ mark, frame: frames[i] as string }));
    if (marks.kind === "answers") {
      for (const { mark, frame } of marked) this.#expected(sessionId, frame, mark)?.put();
      return this.#store.expects(sessionId) ? "more" : "enough";
    }
    const reader = this.#readers.of(sessionId);
    const had = this.#cursor(sessionId, reader);
    // It was for a reader that is gone, or has gone back since.
    if (!reader?.waiting || (had && !isSameCursor(had, marks.after))) return "later";
    const { attachment } = end;
    if (had?.attachment !== attachment) this.#store.setCursor(sessionId, marks.from);
    const { sent } = this.#store.stream(sessionId);
    let text = "";
    let cursor = marks.from;
    for (const { mark, frame } of marked) {
      const expected = this.#expected(sessionId, frame, mark);
      if (expected?.due && text !== "") {
        // What comes before the answer is read before the answer.
        reader.send(text, { attachment, seq: mark.seq - 1, part: 0 });
        return "later";
      }
      if (expected) {
        expected.put();
        continue;
      }
      const said = this.#inDialect(sessionId, frame);
      // Of several messages for one frame only the last says that it is done with.
      for (const one of said.slice(0, -1)) text += event({ sent, cursor }, one);
      cursor = cursorAfterFrame(attachment, mark);
      for (const one of said.slice(-1)) text += event({ sent, cursor }, one);
    }
    if (text === "") reader.moveTo(cursorAfter(end));
    else reader.send(text, cursorAfter(end));
    return text === "" ? "more" : "enough";
  }

  /** Of an answer that belongs on the connection's stream: whether it is due there, and how it gets there, once. */
  #expected(
    sessionId: string,
    text: string,
    { seq, isAnswer }: FrameMark,
  ): { due: boolean; put(): void } | undefined {
    const idText = isAnswer ? mustReadFrame(text).idText : undefined;
    if (idText === undefined) return undefined;
    const expectation = this.#store.expectation(sessionId, idText, seq);
    if (expectation === undefined) return undefined;
    const due = expectation === "due";
    const put = () => {
      if (!due) return;
      this.#store.meet(sessionId, idText, seq);
      for (const said of this.#inDialect(sessionId, text)) this.#put("", said);
    };
    return { due, put };
  }

  #inDialect(sessionId: string, frame: string): string[] {
    const { dialect } = this.state;
    return dialect === null ? [frame] : translateBack(dialect, frame, sessionId);
  }

  #cursor(sessionId: string, reader: StreamReader | undefined): Cursor | null {
    return reader ? reader.cursor : this.#store.stream(sessionId).cursor;
  }

  #lookForAnswers(sessionId: string): void {
    if (!this.#store.state || !this.#store.expects(sessionId)) return;
    this.#ctx.waitUntil(Promise.resolve(this.#session(sessionId).wake(this.state.connection)));
  }

  // ---- state ------------------------------------------------------------------------------------------

  get state(): ClientState {
    if (!this.#store.state) throw new Error("There is no connection here");
    return this.#store.state;
  }

  change(change: Partial<ClientState>): void {
    this.#store.save({ ...this.state, ...change }, Date.now());
  }

  sessions(): readonly string[] {
    return this.#store.attached();
  }

  opens(sessionId: string, idText: string): void {
    this.#store.attach(sessionId);
    this.#store.expect(sessionId, idText);
  }

  async relay(from: string, raw: string): Promise<void> {
    if (this.#store.state) await this.#router.relay(from, raw);
  }

  opened(sessionId: string, attachment: number): void {
    this.#store.attach(sessionId);
    this.#store.setCursor(sessionId, cursorAfter({ attachment, seq: attachment }));
  }

  /** A reader may come back with the id of any event. */
  hasAll(): boolean {
    return false;
  }

  letsGo(sessionId: string): void {
    this.#store.detach(sessionId);
  }

  #session(sessionId: string) {
    return sessionObject(this.#env, this.state.caller.tenant, sessionId);
  }
}

const ACCEPTED: Outcome = { status: 202, reason: "" };
const TAKEN: Outcome = { status: 409, reason: "Outbound stream already has an active receiver" };
const UNKNOWN: Outcome = { status: 404, reason: "Unknown Acp-Connection-Id" };

function event(position: StreamPosition, frame: string): string {
  return `id: ${eventId(position)}\ndata: ${oneLine(frame)}\n\n`;
}
