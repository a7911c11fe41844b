import { callObject } from "../../durable/object-call.ts";
import { sessionObject } from "../../durable/objects.ts";
import type { Caller } from "../../protocol/caller.ts";
import { type Cursor, cursorAfter, isSameCursor } from "../../protocol/cursor.ts";
import { type Frame, mustReadFrame, oneLine } from "../../protocol/frame.ts";
import type { StreamRequest } from "../../protocol/internal-headers.ts";
import type { Limits } from "../../protocol/limits.ts";
import { accepted, type Refusal, type Refused, type Result, refused } from "../../protocol/refusal.ts";
import type { DeliveryResult, FrameMark, Handover, Page, ReaderPosition } from "../../protocol/rpc.ts";
import { RPC_VERSION } from "../../protocol/versions.ts";
import { Admission } from "../admission.ts";
import { adoptCaller, type Client, type Exchange } from "../client.ts";
import { announceCaller, relayToOthers } from "../client-sessions.ts";
import { Intake, type IntakeResult, refuseUninitialized } from "../intake.ts";
import { Router } from "../router.ts";
import { type ConnectionParts, StoredClient, UNKNOWN_CONNECTION } from "../stored-client.ts";
import { type StreamReader, StreamReaders } from "./event-stream-readers.ts";
import { isAnsweredOnConnection, postError } from "./post-validation.ts";
import { cursorAfterFrame, resumedAt, type StreamPosition, streamEventId } from "./stream-position.ts";
import { HttpState } from "./streamable-http-state.ts";

/** A client's message, and the session that the client names in a header. */
export type Post = { caller: Caller; session: string | undefined; raw: string };

/**
 * A client of Streamable HTTP. It posts its messages and reads event streams: the connection's own, and one per
 * session. A session's frames are not copied: its log is their queue, and a stream without reader is a cursor that
 * rests.
 */
export class HttpClient {
  readonly #parts: ConnectionParts;
  readonly #stored: StoredClient;
  readonly #client: HttpState;
  readonly #readers: StreamReaders;
  readonly #intake: Intake;
  /** Messages are routed in the order in which they came, also while one waits for the workspace. */
  #routing: Promise<void> = Promise.resolve();

  constructor(parts: ConnectionParts) {
    const { ctx, env, store, lifetime, logins, limits } = parts;
    this.#parts = parts;
    this.#stored = new StoredClient(parts);
    this.#readers = new StreamReaders(ctx, limits);
    const client = new HttpState(store, this.#stored, this.#readers);
    this.#client = client;
    this.#intake = new Intake({
      client,
      admission: new Admission(env, client, limits),
      router: new Router(env, client, lifetime, logins, limits),
      limits,
    });
  }

  get client(): Client {
    return this.#client;
  }

  // ---- requests ---------------------------------------------------------------------------------------

  /** Makes the connection. Resolves to the answer to `initialize`. */
  async initialize(handover: Handover, raw: string): Promise<string | Refused> {
    const { store, lifetime, deadlines, limits } = this.#parts;
    const entered = await lifetime.enter(handover);
    if (!entered.ok) return entered;
    const allowance = entered.value && { allowance: entered.value };
    store.create({ ...handover, initialized: false, dialect: null, sent: 0, ...allowance }, Date.now());
    lifetime.begin(this.#client.state);
    deadlines.set("idle", Date.now() + limits.connectionIdleMs);
    let answer = "";
    const exchange: Exchange = {
      answer: (text) => {
        answer = text;
      },
      tell: () => {},
      waitFor: () => {},
      undelivered: () => {},
      retentionSeconds: limits.connectionIdleMs / 1000,
    };
    await this.#intake.receiveFrame(mustReadFrame(raw), raw.length, exchange);
    return answer;
  }

  async post({ caller, session, raw }: Post): Promise<Result<undefined>> {
    const { store, limits } = this.#parts;
    if (!store.isFor(caller, "http")) return refused(UNKNOWN_CONNECTION);
    const frame = mustReadFrame(raw);
    const reason = postError(frame, session, limits.idChars, (id) => store.isAttached(id));
    if (reason !== undefined) return refused({ reason: "invalid", message: reason });
    const asks = frame.kind === "request" || frame.kind === "invalid";
    if (asks && store.isFull())
      return refused({ reason: "too-many", message: "Read your event streams first" });
    this.#adoptCaller(caller);
    const handedOver: Promise<void>[] = [];
    let isUndelivered = false;
    const exchange: Exchange = {
      session,
      undelivered: () => {
        isUndelivered = true;
      },
      answer: (text) => this.#answer(frame, session, text),
      tell: (text) => this.#answer(frame, session, text),
      waitFor: (promise) => handedOver.push(promise),
    };
    let result: Result<undefined>;
    try {
      result = await this.#inOrder(() => this.#receive(frame, exchange));
      await Promise.all(handedOver);
    } catch (error) {
      // The connection may have been ended in between.
      if (this.#stored.exists) throw error;
      return refused(UNKNOWN_CONNECTION);
    }
    if (isUndelivered) return refused(UNDELIVERED);
    // The answer may come from a session whose cursor rests, because nobody reads the session's stream.
    if (frame.kind === "request" && (session === undefined || isAnsweredOnConnection(frame)))
      for (const sessionId of store.sessionsOwing()) this.#searchAnswers(sessionId);
    return result;
  }

  async #receive(frame: Frame, exchange: Exchange): Promise<Result<undefined>> {
    // An answer by the connection itself, even a refusal, cancels the debt.
    if (frame.method === "session/load" && frame.kind === "request" && frame.sessionId !== undefined)
      this.#parts.store.owe(frame.sessionId, frame.idText);
    const result = await this.#intake.receiveFrame(frame, frame.raw.length, exchange);
    return this.#resultOf(result, exchange);
  }

  #resultOf(result: IntakeResult, exchange: Exchange): Result<undefined> {
    switch (result.kind) {
      case "taken":
      case "too-long":
        return accepted();
      case "id-too-long":
        return refused(idTooLong(this.#parts.limits));
      case "uninitialized":
        refuseUninitialized(result.frame, exchange);
        return accepted();
      case "quota-exceeded":
        return refused({ reason: "too-many", message: result.message, retryAfterMs: result.retryAfterMs });
    }
  }

  /**
   * Opens a stream: the reader's end of a socket, or a refusal. A reader that presents `lastEventId` takes the stream
   * over, because only the reader before it can know the id. A reader without one is refused while the current reader
   * is alive.
   */
  async open({ caller, session = "", lastEventId }: StreamRequest): Promise<Result<WebSocket>> {
    const { store, limits } = this.#parts;
    if (!store.isFor(caller, "http")) return refused(UNKNOWN_CONNECTION);
    if (session.length > limits.idChars) return refused(idTooLong(limits));
    if (lastEventId === undefined && (await this.#isRead(session))) return refused(TAKEN);
    if (!store.isFor(caller, "http")) return refused(UNKNOWN_CONNECTION);
    if (!this.#readers.of(session) && this.#readers.count > limits.sessionsPerConnection)
      return refused({ reason: "too-many", message: "Too many event streams" });
    if (caller.expires > this.#client.state.caller.expires) this.#adoptCaller(caller);
    const stream = store.stream(session);
    const last = this.#readers.last(session);
    if (lastEventId === undefined) {
      const { client, reader } = this.#readers.accept(session, last ? last.cursor : stream.cursor);
      // Otherwise a client that is cut off before its first event could not say where it was.
      reader.greet(streamEventId({ sent: stream.sent, cursor: reader.cursor }));
      return accepted(client);
    }
    const from = resumedAt(lastEventId, stream);
    if ("reason" in from) return refused(from);
    if (from.sent < stream.sent) store.setSent(session, from.sent);
    return accepted(this.#readers.accept(session, from.cursor).client);
  }

  /** Whether the stream has a reader that is alive, or that came while the one before it was probed. */
  async #isRead(session: string): Promise<boolean> {
    const reader = this.#readers.of(session);
    if (!reader) return false;
    if (await reader.isAlive()) return true;
    return ![reader, undefined].includes(this.#readers.of(session));
  }

  /** Ends the connection. Its sessions go on: a client that leaves decides nothing. */
  async remove(caller: Caller): Promise<Result<undefined>> {
    if (!this.#parts.store.isFor(caller, "http")) return refused(UNKNOWN_CONNECTION);
    await this.end();
    return accepted();
  }

  /** Ends the connection if nobody has used it for long; until then, sets the deadline again. */
  async expire(): Promise<void> {
    if (!this.#stored.exists) return;
    const { store, deadlines, limits } = this.#parts;
    const used = this.#readers.count > 0 ? Date.now() : store.seen();
    const until = used + limits.connectionIdleMs;
    if (until > Date.now()) deadlines.set("idle", until);
    else await this.end();
  }

  // ---- token and end ----------------------------------------------------------------------------------

  /** Each request has a token of its own. The latest one is the client's from then on. */
  #adoptCaller(caller: Caller): void {
    const { ctx, env, lifetime } = this.#parts;
    const before = adoptCaller(this.#client, caller);
    const { state } = this.#client;
    const isLater = caller.expires > before.expires;
    if (isLater) lifetime.renewed(state);
    if (isLater || state.caller.scopes.join() !== before.scopes.join())
      ctx.waitUntil(announceCaller(env, this.#client));
  }

  notify(text: (caller: Caller) => string): void {
    if (this.#stored.exists) this.#put("", text(this.#client.state.caller));
  }

  /** Ends the event streams with their token. A client with another token finds everything as it was. */
  hangUp(reason: string): void {
    this.#readers.hangUp(reason);
  }

  async end(reason = "connection closed"): Promise<void> {
    if (!this.#stored.exists) return;
    this.#readers.dismiss(reason);
    await this.#stored.end(this.#client.state);
  }

  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#routing.then(work);
    this.#routing = done.then(
      () => {},
      () => {},
    );
    return done;
  }

  // ---- readers ----------------------------------------------------------------------------------------

  /** A reader has room for a page. */
  async next(socket: WebSocket): Promise<void> {
    const reader = this.#readers.at(socket);
    if (!reader || !this.#stored.exists) return;
    reader.wait();
    this.#flush(reader);
    if (reader.isWaiting && this.#stored.isAttached(reader.stream)) await this.#wake(reader.stream);
  }

  readerGone(socket: WebSocket): void {
    const reader = this.#readers.at(socket);
    if (!reader || !this.#stored.exists) return;
    this.#readers.remove(reader);
    this.#parts.store.setCursor(reader.stream, reader.cursor);
    this.#client.change({});
    this.#searchAnswers(reader.stream);
  }

  /** Sends the connection's own messages for this stream, if the reader waits for a page. */
  #flush(reader: StreamReader | undefined): void {
    const { store } = this.#parts;
    if (!reader?.isWaiting) return;
    const messages = store.unsent(reader.stream);
    const last = messages.at(-1);
    if (!last) return;
    const { cursor } = reader;
    reader.send(messages.map(({ n, text }) => event({ sent: n, cursor }, text)).join(""), cursor);
    store.setSent(reader.stream, last.n);
    store.trim();
  }

  #put(stream: string, text: string): void {
    this.#parts.store.put(stream, text);
    this.#flush(this.#readers.of(stream));
  }

  #answer(frame: Frame, session: string | undefined, text: string): void {
    if (!this.#stored.exists) return;
    const isOwn = frame.kind === "invalid" || isAnsweredOnConnection(frame) || session === undefined;
    if (frame.idText !== undefined) this.#parts.store.cancelOwed(frame.idText);
    this.#put(isOwn ? "" : session, text);
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  sessions(): readonly string[] {
    return this.#client.sessions();
  }

  startReading(sessionId: string): ReaderPosition | null {
    if (!this.#stored.exists) return null;
    this.#stored.attach(sessionId);
    return this.#position(sessionId);
  }

  #position(sessionId: string): ReaderPosition {
    const reader = this.#readers.of(sessionId);
    return {
      v: RPC_VERSION,
      cursor: this.#cursor(sessionId, reader),
      rests: !reader?.isWaiting,
      // A reader of the session's stream gets the answers in their turn.
      marks: { awaitsAnswers: !reader && this.#parts.store.isOwing(sessionId) },
    };
  }

  deliver(sessionId: string, { end, frames, marks }: Page): DeliveryResult {
    if (!this.#stored.exists) return "gone";
    if (!marks) return "later";
    const { store } = this.#parts;
    const marked = marks.frames.map((mark, i) => ({ mark, frame: frames[i] as string }));
    if (marks.kind === "answers") {
      for (const { mark, frame } of marked) this.#owedAnswer(sessionId, frame, mark)?.settle();
      return store.isOwing(sessionId) ? "more" : "enough";
    }
    const reader = this.#readers.of(sessionId);
    const before = this.#cursor(sessionId, reader);
    // The page was for a reader that is gone, or that has gone back since.
    if (!reader?.isWaiting || (before && !isSameCursor(before, marks.after))) return "later";
    const { attachment } = end;
    if (before?.attachment !== attachment) store.setCursor(sessionId, marks.from);
    const { sent } = store.stream(sessionId);
    let text = "";
    let cursor = marks.from;
    for (const { mark, frame } of marked) {
      const answer = this.#owedAnswer(sessionId, frame, mark);
      if (answer?.isDue && text !== "") {
        // The client must read these frames before the answer, which goes to another stream.
        reader.send(text, cursorAfter({ attachment, seq: mark.seq - 1 }));
        return "later";
      }
      if (answer) {
        answer.settle();
        continue;
      }
      const messages = this.#stored.inDialect(sessionId, [frame]);
      // Of several messages for one frame, only the last one moves the cursor past the frame.
      for (const message of messages.slice(0, -1)) text += event({ sent, cursor }, message);
      cursor = cursorAfterFrame(attachment, mark);
      for (const message of messages.slice(-1)) text += event({ sent, cursor }, message);
    }
    if (text === "") reader.moveTo(cursorAfter(end));
    else reader.send(text, cursorAfter(end));
    return text === "" ? "more" : "enough";
  }

  /** Relays a login or logout that the agent of session `from` has accepted. */
  async relay(from: string, raw: string, agent?: string): Promise<void> {
    if (this.#stored.exists)
      await relayToOthers(this.#parts.env, this.#client, this.#parts.logins, from, raw, agent);
  }

  /** A frame that answers a request on the connection's own stream. Settling puts the answer there, once. */
  #owedAnswer(
    sessionId: string,
    text: string,
    { seq, isAnswer }: FrameMark,
  ): { isDue: boolean; settle(): void } | undefined {
    const { store } = this.#parts;
    const idText = isAnswer ? mustReadFrame(text).idText : undefined;
    const owed = idText === undefined ? undefined : store.owed(sessionId, idText, seq);
    if (idText === undefined || owed === undefined) return undefined;
    const isDue = owed === "due";
    const settle = () => {
      if (!isDue) return;
      store.settle(sessionId, idText, seq);
      for (const message of this.#stored.inDialect(sessionId, [text])) this.#put("", message);
    };
    return { isDue, settle };
  }

  #cursor(sessionId: string, reader: StreamReader | undefined): Cursor | null {
    return reader ? reader.cursor : this.#parts.store.stream(sessionId).cursor;
  }

  /** Lets a session that owes an answer search its log for it. */
  #searchAnswers(sessionId: string): void {
    const { ctx, store } = this.#parts;
    if (!this.#stored.exists || !store.isOwing(sessionId)) return;
    ctx.waitUntil(this.#wake(sessionId));
  }

  #wake(sessionId: string): Promise<void> {
    const { caller, connection } = this.#client.state;
    return callObject(
      () => sessionObject(this.#parts.env, caller.tenant, sessionId),
      (session) => session.wake(connection),
    );
  }
}

const TAKEN: Refusal = { reason: "conflict", message: "Outbound stream already has an active receiver" };

const UNDELIVERED: Refusal = {
  reason: "unavailable",
  message: "The session does not respond: load it and see whether it has the message",
  retryAfterMs: 5000,
};

function idTooLong({ idChars }: Limits): Refusal {
  return { reason: "invalid", message: `Ids have at most ${idChars} characters` };
}

function event(position: StreamPosition, frame: string): string {
  return `id: ${streamEventId(position)}\ndata: ${oneLine(frame)}\n\n`;
}
