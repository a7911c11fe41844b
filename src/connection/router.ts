import { CHAIN_RESPONSE_MS, callObject, RESPONSE_MS } from "../durable/object-call.ts";
import { type SessionObject, sessionObject, workspaceObject } from "../durable/objects.ts";
import type { Caller } from "../protocol/caller.ts";
import { parseChildSessionId } from "../protocol/child-session-id.ts";
import { abilitiesOf } from "../protocol/client-abilities.ts";
import { type DialectName, readOffer, translate, translateOpening } from "../protocol/dialects/index.ts";
import {
  ErrorCode,
  errorResponse,
  INTERNAL_ERROR,
  type RpcError,
  resultResponse,
} from "../protocol/errors.ts";
import { ExtensionMethod } from "../protocol/extensions.ts";
import type { Frame, RequestFrame } from "../protocol/frame.ts";
import { isUuid } from "../protocol/ids.ts";
import { redactInitializeResult } from "../protocol/initialize-result.ts";
import { recordOf } from "../protocol/json-value.ts";
import type { Limits } from "../protocol/limits.ts";
import { offeredIo } from "../protocol/methods.ts";
import { isAbsolutePath, PATH_CHARS, pathOf } from "../protocol/reader-messages.ts";
import { type Result, rpcErrorOf, unknownSession } from "../protocol/refusal.ts";
import type { Left, Login, ReceivedFrames } from "../protocol/rpc.ts";
import { RPC_VERSION } from "../protocol/versions.ts";
import { countSession } from "../tenant/client/subject-limits.ts";
import { type Client, type Exchange, subscriptionsOf } from "./client.ts";
import { releaseFinished } from "./client-sessions.ts";
import { FrameOutbox, type NumberedFrame, type Undelivered } from "./frame-outbox.ts";
import type { Logins } from "./logins.ts";
import { checkInitialize, initializeResult } from "./methods/initialize.ts";
import { callLocalMethod } from "./methods/local-methods.ts";
import { renewToken } from "./methods/renew-token.ts";
import { respondToPermission } from "./methods/respond-to-permission.ts";
import { type LocalMethod, mayAttach, NO_SESSION_ID, routeOf } from "./route.ts";
import { newSessionId } from "./session-ids.ts";
import type { TokenLifetime } from "./token-lifetime.ts";

/** Carries out what a client's frame asks for: answers it here, or passes it to the session that it concerns. */
export class Router {
  readonly #env: Env;
  readonly #client: Client;
  readonly #lifetime: TokenLifetime;
  readonly #logins: Logins;
  readonly #limits: Limits;
  readonly #outboxes = new Map<string, FrameOutbox>();

  constructor(env: Env, client: Client, lifetime: TokenLifetime, logins: Logins, limits: Limits) {
    this.#env = env;
    this.#client = client;
    this.#lifetime = lifetime;
    this.#logins = logins;
    this.#limits = limits;
  }

  async initialize(frame: RequestFrame, { answer, retentionSeconds }: Exchange): Promise<void> {
    const { state } = this.#client;
    const id = frame.idText;
    const { dialect, offer, answered } = readOffer(frame.value.params);
    const error = state.initialized
      ? { code: ErrorCode.invalidRequest, message: "Already initialized" }
      : checkInitialize(offer);
    if (error) return answer(errorResponse(id, error));
    const selected = await callObject(
      () => this.#workspace(),
      (workspace) => workspace.selectAgent(state.caller, state.agent),
      // The workspace waits for the agent to start.
      { timeoutMs: this.#limits.agentStartMs + RESPONSE_MS },
    );
    if (!selected.ok) return answer(errorResponse(id, rpcErrorOf(selected.refusal)));
    const { agent, initialize, modes, agentName, closeWithLastClient } = selected.value;
    this.#client.change({
      initialized: true,
      agent,
      dialect,
      serves: offeredIo(offer),
      abilities: abilitiesOf(offer),
      ...(state.control && { closes: closeWithLastClient === true }),
    });
    const result = initializeResult(visibleTo(state.caller, initialize), retentionSeconds);
    answer(resultResponse(id, answered(result, { modes, agentName })));
  }

  route(frame: Frame, exchange: Exchange): Promise<void> {
    // A token must not get into a session's log.
    if (frame.method === ExtensionMethod.renewToken) return this.#renew(frame, exchange);
    const { dialect } = this.#client.state;
    return dialect === null ? this.#route(frame, exchange) : this.#translate(dialect, frame, exchange);
  }

  async #route(frame: Frame, exchange: Exchange): Promise<void> {
    const route = routeOf(frame, this.#client.state.caller, exchange.session);
    if (route.to !== "refusal" && mayAttach(frame)) await this.#makeRoom();
    switch (route.to) {
      case "session": {
        // The session of a sub-agent is part of the session whose agent made it.
        const sessionId = parseChildSessionId(route.sessionId)?.sessionId ?? route.sessionId;
        return this.#forwardCanonical(sessionId, route.reduced ?? frame, exchange);
      }
      case "all-sessions":
        for (const sessionId of this.#client.sessions()) this.#forward(sessionId, frame, exchange);
        return;
      case "new-session":
        return this.#open(route.request, exchange);
      case "deletion":
        return this.#delete(route.request, exchange);
      case "departure":
        return this.#leave(route.request, exchange);
      case "local-method":
        return this.#answerHere(route.method, route.request, exchange);
      case "agent-process":
        return this.#forwardToProcess(route.request, exchange);
      case "newest-session": {
        const newest = this.#client.sessions().at(-1);
        if (newest !== undefined) this.#forward(newest, frame, exchange);
        return;
      }
      case "refusal":
        return this.#refuse(frame, exchange, route.error);
      case "nowhere":
        return;
    }
  }

  async #renew(frame: Frame, exchange: Exchange): Promise<void> {
    const renewed = await renewToken(this.#env, this.#client, this.#lifetime, this.#limits, frame);
    if ("error" in renewed) this.#refuse(frame, exchange, renewed.error);
    else if (frame.kind === "request") exchange.answer(resultResponse(frame.idText, renewed.result));
  }

  async #translate(dialect: DialectName, frame: Frame, exchange: Exchange): Promise<void> {
    const translation = translate(dialect, frame);
    if ("frame" in translation) return this.#route(translation.frame, exchange);
    if ("refuse" in translation) return this.#refuse(frame, exchange, translation.refuse);
    const error = await respondToPermission(this.#env, this.#client, translation.permission);
    if (error) return this.#refuse(frame, exchange, error);
    if (frame.kind === "request") exchange.answer(resultResponse(frame.idText, {}));
  }

  // ---- answered here ----------------------------------------------------------------------------------

  async #answerHere(method: LocalMethod, frame: RequestFrame, exchange: Exchange): Promise<void> {
    const { connection, caller } = this.#client.state;
    const subscriptions = subscriptionsOf(this.#client.state);
    const reserve = () => this.#reserve(exchange);
    const info = { connection, caller, subscriptions, ...this.#login(), reserve };
    const answer = await callLocalMethod(this.#env, info, method, frame);
    if ("error" in answer) return this.#refuse(frame, exchange, answer.error);
    const { attached } = answer;
    // A client that repeats its request may have read further already.
    if (attached && !this.#isAttached(attached.sessionId))
      this.#client.attach(attached.sessionId, attached.attachment);
    exchange.answer(resultResponse(frame.idText, answer.result));
  }

  /** Deletion succeeds also if the session does not exist or is not the caller's. */
  async #delete(frame: RequestFrame, exchange: Exchange): Promise<void> {
    const { sessionId } = frame;
    if (sessionId === undefined) return this.#refuse(frame, exchange, NO_SESSION_ID);
    const { caller } = this.#client.state;
    const remove = (session: SessionObject) => session.delete(caller);
    if (isUuid(sessionId) && (await this.#callSession(sessionId, remove, CHAIN_RESPONSE_MS)).ok)
      this.#client.release(sessionId);
    exchange.answer(resultResponse(frame.idText, {}));
  }

  /** The session goes on without the client, or ends where that is the meaning of `session/close`. */
  async #leave(frame: RequestFrame, exchange: Exchange): Promise<void> {
    const { sessionId } = frame;
    if (sessionId === undefined) return this.#refuse(frame, exchange, NO_SESSION_ID);
    if (!isUuid(sessionId)) return this.#refuse(frame, exchange, rpcErrorOf(unknownSession(sessionId)));
    // The session decides with everything that the client said before.
    await this.#outboxes.get(sessionId)?.settled;
    const { connection, caller, sent } = this.#client.state;
    const closes = frame.method === "session/close";
    const order = {
      ...{
        v: RPC_VERSION,
        caller,
        number: exchange.number ?? sent,
        closes,
        frame: closes ? frame.raw : null,
      },
      subscriptions: subscriptionsOf(this.#client.state),
    };
    const left = await this.#callSession(
      sessionId,
      (session) => session.detach(connection, order),
      this.#limits.callMs,
    );
    if (left === undefined && closes) return this.#forward(sessionId, frame, exchange);
    if (left?.ok === false) return this.#refuse(frame, exchange, rpcErrorOf(left.refusal));
    if (left?.value.ended) return;
    this.#client.release(sessionId);
    for (const request of left?.value.open ?? []) exchange.tell(abandonedAnswer(request));
    exchange.answer(resultResponse(frame.idText, {}));
  }

  #refuse({ kind, idText }: Pick<Frame, "kind" | "idText">, { answer }: Exchange, error: RpcError): void {
    if (kind === "request" && idText !== undefined) answer(errorResponse(idText, error));
  }

  // ---- new sessions -----------------------------------------------------------------------------------

  async #open(frame: RequestFrame, exchange: Exchange): Promise<void> {
    const error = checkNewSession(frame.value.params);
    if (error) return this.#refuse(frame, exchange, error);
    const opening = translateOpening(frame);
    if ("refuse" in opening) return this.#refuse(frame, exchange, opening.refuse);
    await this.#openSession(frame, exchange, opening.frame.raw, await this.#unopened());
  }

  /** The session whose agent process has logged in and waits for `session/new`, if there is one. */
  async #unopened(): Promise<string | undefined> {
    const { connection, opening, agent } = this.#client.state;
    if (opening === undefined || !this.#client.sessions().includes(opening)) return undefined;
    const awaits = await this.#callSession(opening, (session) =>
      session.isAwaitingOpening(connection, agent ?? ""),
    );
    return awaits ? opening : undefined;
  }

  /** Opens a session, or with `raw` null only starts its agent process. Undefined when that was refused. */
  async #openSession(
    frame: RequestFrame,
    exchange: Exchange,
    raw: string | null,
    unopened?: string,
  ): Promise<string | undefined> {
    const reserved = unopened === undefined ? await this.#reserve(exchange) : { sessionId: unopened };
    if ("error" in reserved) {
      this.#refuse(frame, exchange, reserved.error);
      return undefined;
    }
    const { sessionId } = reserved;
    const { connection, caller, workspace, agent } = this.#client.state;
    this.#client.expectOpen(sessionId, frame.idText);
    this.#client.change({ opening: sessionId });
    const subscriptions = subscriptionsOf(this.#client.state);
    const subject = { sessionId, connection, caller, workspace, agent: agent ?? "" };
    const order = { v: RPC_VERSION, ...subject, raw, subscriptions, ...this.#login() };
    const opened = await this.#callSession(sessionId, (session) => session.open(order));
    if (opened.ok) return sessionId;
    this.#client.release(sessionId);
    this.#refuse(frame, exchange, rpcErrorOf(opened.refusal));
    return undefined;
  }

  /**
   * The id of a session that the client may open, counted against the caller's quota. A request that the client sends a
   * second time under its number gets the same id, and is not counted again.
   */
  async #reserve({ number }: Exchange): Promise<{ sessionId: string } | { error: RpcError }> {
    const sessionId = await newSessionId(this.#client, number);
    if (this.#isAttached(sessionId)) return { sessionId };
    const tooMany = this.#tooManySessions(sessionId);
    if (tooMany) return { error: tooMany };
    const counted = await countSession(this.#env, this.#limits, this.#client.state.caller);
    return counted.ok ? { sessionId } : { error: rpcErrorOf(counted.refusal) };
  }

  #isAttached(sessionId: string): boolean {
    return this.#client.sessions().includes(sessionId);
  }

  /**
   * A login, a provider or a method of the vendor concerns the agent, but an agent runs only for a session. The agent of
   * the newest session gets the request; the connection relays logins to the others. Before the first session, a process
   * is started for the request, and the next `session/new` opens its session there.
   */
  async #forwardToProcess(frame: RequestFrame, exchange: Exchange): Promise<void> {
    const newest = this.#client.sessions().at(-1);
    if (newest !== undefined) this.#client.expectOpen(newest, frame.idText);
    const sessionId = newest ?? (await this.#openSession(frame, exchange, null));
    if (sessionId !== undefined) this.#forward(sessionId, frame, exchange);
  }

  /** The client's login at its agent, for the process of a session that the client comes to. */
  #login(): { login?: Login } {
    const login = this.#logins.of(this.#client.state.agent);
    return login ? { login } : {};
  }

  /** A client with as many sessions as it may have is released from the finished ones. */
  async #makeRoom(): Promise<void> {
    if (this.#hasRoom || !this.#client.isCaughtUp()) return;
    await releaseFinished(this.#env, this.#client);
  }

  get #hasRoom(): boolean {
    return this.#client.sessions().length < this.#limits.sessionsPerConnection;
  }

  /** The refusal of a session that the client is not attached to and has no room for. */
  #tooManySessions(sessionId: string): RpcError | undefined {
    if (this.#isAttached(sessionId) || this.#hasRoom) return undefined;
    const message = `A connection has at most ${this.#limits.sessionsPerConnection} sessions`;
    return { code: ErrorCode.invalidRequest, message };
  }

  // ---- to sessions ------------------------------------------------------------------------------------

  /** Forwards a frame. One that loads or resumes a session may bring MCP servers along, in an older form. */
  #forwardCanonical(sessionId: string, frame: Frame, exchange: Exchange): void {
    const opening = mayAttach(frame) ? translateOpening(frame) : { frame };
    if ("refuse" in opening) this.#refuse(frame, exchange, opening.refuse);
    else this.#forward(sessionId, opening.frame, exchange);
  }

  /** Puts a frame in the session's outbox. To a caller that may not know a session, the session does not exist. */
  #forward(sessionId: string, frame: Frame, exchange: Exchange): void {
    // Only the text is kept until the session has the frame: a parsed frame takes twice the memory.
    const { raw, kind, idText } = frame;
    const refuse = (why: Undelivered) => {
      if (why === "unreachable") exchange.undelivered();
      else this.#refuse({ kind, idText }, exchange, why === "failed" ? INTERNAL_ERROR : rpcErrorOf(why));
    };
    if (!isUuid(sessionId)) return refuse(unknownSession(sessionId));
    const tooMany = this.#tooManySessions(sessionId);
    if (tooMany) return this.#refuse(frame, exchange, tooMany);
    let outbox = this.#outboxes.get(sessionId);
    if (!outbox) {
      outbox = new FrameOutbox((batch, isRepeated) => this.#send(sessionId, batch, isRepeated), this.#limits);
      this.#outboxes.set(sessionId, outbox);
    }
    // Numbers grow, so that a session recognises a frame that comes a second time.
    const number = exchange.number ?? this.#client.state.sent;
    const sent = outbox.put({ frame: raw, number, attaches: mayAttach(frame) }, refuse);
    exchange.waitFor(sent.then(() => this.#dropEmpty(sessionId)));
  }

  /** A client may name any number of sessions, even ones that do not exist: their outboxes must not accumulate. */
  #dropEmpty(sessionId: string): void {
    if (this.#outboxes.get(sessionId)?.isEmpty) this.#outboxes.delete(sessionId);
  }

  /** Sends one batch to one session. Frames are numbered, so a repeated call has no further effect. */
  async #send(
    sessionId: string,
    batch: readonly NumberedFrame[],
    isRepeated: boolean,
  ): Promise<Result<ReceivedFrames>> {
    const { connection, caller } = this.#client.state;
    const subscriptions = subscriptionsOf(this.#client.state);
    const frames = batch.map(({ frame }) => frame);
    const numbers = batch.map(({ number }) => number);
    const login = batch.some(({ attaches }) => attaches) ? this.#login() : {};
    const order = { v: RPC_VERSION, connection, caller, numbers, frames, subscriptions, ...login };
    let repeated = isRepeated;
    const send = (session: SessionObject) => {
      const sent = session.receive(repeated ? { ...order, repeated } : order);
      repeated = true;
      return sent;
    };
    return this.#callSession(sessionId, send, this.#limits.callMs);
  }

  #callSession<R>(
    sessionId: string,
    call: (session: SessionObject) => R,
    timeoutMs?: number,
  ): Promise<Awaited<R>> {
    const { caller, workspace } = this.#client.state;
    const find = () => sessionObject(this.#env, caller.tenant, sessionId, workspace);
    return callObject(find, call, { timeoutMs });
  }

  #workspace() {
    const { caller, workspace } = this.#client.state;
    return workspaceObject(this.#env, caller.tenant, workspace);
  }
}

/** The agent's answer to `initialize`, as far as the caller may see it. */
function visibleTo({ redacted }: Caller, answer: string | null): Record<string, unknown> | null {
  return answer === null ? null : JSON.parse(redacted ? redactInitializeResult(answer) : answer);
}

/** The answer to a request whose client leaves. To the client a prompt is cancelled; for everybody else its turn goes on. */
function abandonedAnswer({ id, method }: Left["open"][number]): string {
  if (method === "session/prompt") return resultResponse(id, { stopReason: "cancelled" });
  return errorResponse(id, { code: ErrorCode.requestCancelled, message: "The client has left the session" });
}

function checkNewSession(params: unknown): RpcError | undefined {
  const cwd = pathOf(recordOf(params).cwd);
  if (cwd !== undefined && isAbsolutePath(cwd)) return undefined;
  const message = `params.cwd must be an absolute path of at most ${PATH_CHARS} characters`;
  return { code: ErrorCode.invalidParams, message };
}
