import { DurableObject } from "cloudflare:workers";
import { closeUnreadable, socketKind } from "../durable/attachments.ts";
import { Deadlines } from "../durable/deadlines.ts";
import { socketResponse } from "../durable/socket-response.ts";
import type { Caller } from "../protocol/caller.ts";
import { answerClose, CloseCode } from "../protocol/close-codes.ts";
import { notification } from "../protocol/errors.ts";
import { ExtensionMethod } from "../protocol/extensions.ts";
import { HANDOVER, RESUMPTION, STREAM, type StreamRequest } from "../protocol/internal-headers.ts";
import { type Limits, readLimits } from "../protocol/limits.ts";
import type { Refused, Result } from "../protocol/refusal.ts";
import { RESUMABLE } from "../protocol/resumable-wire.ts";
import type { ClientPort, DeliveryResult, Handover, Page, ReaderPosition } from "../protocol/rpc.ts";
import { readable } from "../protocol/versions.ts";
import { detachFrom } from "./client-sessions.ts";
import { ConnectionStore } from "./connection-store.ts";
import { withoutImpostors } from "./foreign-frames.ts";
import { Logins } from "./logins.ts";
import { expiresAt } from "./methods/renew-token.ts";
import type { ConnectionParts } from "./stored-client.ts";
import { type ConnectionDeadline, EXPIRED, TokenLifetime } from "./token-lifetime.ts";
import { ResumableClient } from "./transports/resumable.ts";
import { HttpClient, type Post } from "./transports/streamable-http.ts";
import { SocketClient } from "./transports/web-socket.ts";

/**
 * One client's connection. It speaks JSON-RPC with the client, over a WebSocket, a resumable WebSocket or Streamable
 * HTTP, and passes the client's frames to the sessions that they name. At rest it is a hibernating socket, or a few
 * rows.
 */
export class AcpConnection extends DurableObject<Env> implements ClientPort {
  readonly #limits: Limits;
  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #lifetime: TokenLifetime;
  #storage: ConnectionStore | undefined;
  #socketClient: SocketClient | undefined;
  #httpClient: HttpClient | undefined;
  #resumableClient: ResumableClient | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#limits = readLimits(env.LIMITS);
    this.#deadlines = new Deadlines(ctx.storage);
    this.#lifetime = new TokenLifetime(
      ...([ctx, env, this.#deadlines, this.#limits] as const),
      () => this.#isOpen,
      (reason, code) => ctx.waitUntil(this.#end(reason, code)),
    );
  }

  override async fetch(request: Request): Promise<Response> {
    const stream = STREAM.read(request.headers);
    if (stream) return this.#openStream(stream);
    const handover = HANDOVER.read(request.headers);
    if (!handover) return new Response("No client handed over", { status: 400 });
    const resumption = RESUMPTION.read(request.headers);
    if (!resumption) return this.#accept(handover);
    const socket = await this.#resumable().accept(handover, resumption);
    const headers = { "Acp-Connection-Id": handover.connection, "Sec-WebSocket-Protocol": RESUMABLE };
    return socketResponse(socket, headers);
  }

  async #accept(handover: Handover): Promise<Response> {
    const entered = await this.#lifetime.enter(handover);
    if (!entered.ok) return socketResponse(entered);
    const response = SocketClient.accept(this.ctx, handover, entered.value);
    const client = this.#socket();
    if (client) this.#lifetime.begin(client.client.state);
    await this.#checkLiveness();
    return response;
  }

  async #openStream(request: StreamRequest): Promise<Response> {
    return socketResponse(await this.#http().open(request));
  }

  // ---- sockets ----------------------------------------------------------------------------------------

  override async webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    switch (socketKind(ws)) {
      case "client":
        return this.#over(ws)?.receive(message);
      case "resumable":
        return this.#resumable().receive(ws, message);
      case "stream-reader":
        return this.#http().next(ws);
      default:
        closeUnreadable(ws);
    }
  }

  override webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    return this.#closed(ws, code);
  }

  /** No close event follows an error. */
  override webSocketError(ws: WebSocket): Promise<void> {
    return this.#closed(ws, CloseCode.lost);
  }

  async #closed(ws: WebSocket, code: number): Promise<void> {
    switch (socketKind(ws)) {
      case "client":
        return this.#leave(this.#over(ws));
      case "resumable":
        return this.#resumable().closed(ws, code);
      case "stream-reader":
        return this.#http().readerGone(ws);
    }
  }

  /** A client on a plain WebSocket is gone with its socket, or is given up. */
  async #leave(socketClient: SocketClient | undefined): Promise<void> {
    if (!socketClient?.leave()) return;
    const { client } = socketClient;
    const { state } = client;
    const sessions = client.sessions();
    this.#socketClient = undefined;
    this.#deadlines.forget();
    await this.ctx.storage.deleteAll();
    await Promise.all([
      socketClient.settled().then((last) => this.#lifetime.end(last)),
      ...detachFrom(this.env, state, sessions),
    ]);
  }

  // ---- Streamable HTTP --------------------------------------------------------------------------------

  /** The answer to `initialize`. */
  initialize(handover: Handover, raw: string): Promise<string | Refused> {
    return this.#http().initialize(handover, raw);
  }

  post(post: Post): Promise<Result<undefined>> {
    return this.#http().post(post);
  }

  remove(caller: Caller): Promise<Result<undefined>> {
    return this.#http().remove(caller);
  }

  // ---- time and rights --------------------------------------------------------------------------------

  override async alarm(): Promise<void> {
    if (await this.#endLost()) return;
    await this.#deadlines.run(Date.now(), {
      handshake: () => this.#endUnused(),
      idle: () => this.#withoutSocket().expire(),
      liveness: () => this.#checkLiveness(),
      registration: () => this.#lifetime.checkRegistration(),
      "token-warning": () =>
        this.#transport().notify((caller) =>
          notification(ExtensionMethod.tokenExpiring, { expiresAt: expiresAt(caller) }),
        ),
      "token-expiry": () => (this.#socket() ? this.#end(EXPIRED) : this.#withoutSocket().hangUp(EXPIRED)),
    });
  }

  /**
   * A reset of the object takes its sockets along and reports no close. A client on a plain WebSocket is then gone: the
   * connection signs off and leaves nothing behind. Sessions notice at their next delivery.
   */
  async #endLost(): Promise<boolean> {
    const lost = SocketClient.lost(this.ctx);
    if (!lost) return false;
    this.#deadlines.forget();
    await this.ctx.storage.deleteAll();
    await this.#lifetime.end(lost);
    return true;
  }

  /** Whether somebody uses the connection: a client on a socket, or one over HTTP, whose connection ends when it idles. */
  get #isOpen(): boolean {
    if (SocketClient.socket(this.ctx)) return true;
    return this.#isResumable ? this.#resumable().isConnected : this.#store.state !== undefined;
  }

  /** Ends a client that has not initialized in time. On `/agent/ws` a person may take long to choose an agent. */
  async #endUnused(): Promise<void> {
    const transport = this.#socket() ?? (this.#isResumable ? this.#resumable() : undefined);
    const state = transport?.client.state;
    if (state && !state.initialized && !state.control)
      await transport?.end("not initialized in time", CloseCode.protocolError);
  }

  /** Pings a client that has been silent for long, or gives it up. Everything that it has begun goes on. */
  async #checkLiveness(): Promise<void> {
    const client = this.#socket();
    if (!client) return this.#isResumable ? this.#resumable().checkLiveness() : undefined;
    const check = client.checkLiveness(Date.now());
    if (typeof check === "number") return this.#deadlines.set("liveness", check);
    client.end(check, CloseCode.goingAway);
    await this.#leave(client);
  }

  /** The client's token is revoked, or a session it has open. */
  endSocket(id: string, reason: string): Promise<void> {
    this.#lifetime.markEnded(id);
    return this.#end(reason);
  }

  /** For the object of the subject, whose places are all taken. */
  holdsSocket(id: string): boolean {
    return this.#lifetime.holds(id);
  }

  async #end(reason: string, code?: number): Promise<void> {
    await this.#transport().end(reason, code);
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  async startReading(sessionId: string): Promise<ReaderPosition | null> {
    return this.#transport().startReading(sessionId);
  }

  async deliver(sessionId: string, page: Page): Promise<DeliveryResult> {
    const transport = this.#transport();
    const checked = withoutImpostors(readable(page, "A page"), sessionId, () => transport.sessions());
    const result = transport.deliver(sessionId, checked);
    // The client has been pinged, and is given up unless it answers.
    if (result === "enough" && transport instanceof SocketClient) await this.#checkLiveness();
    return result;
  }

  /** The agent of a session has accepted a login or a logout. */
  async relay(sessionId: string, raw: string, agent?: string): Promise<void> {
    await this.#transport().relay(sessionId, raw, agent);
  }

  // ---- transports -------------------------------------------------------------------------------------

  #transport(): SocketClient | HttpClient | ResumableClient {
    return this.#socket() ?? this.#withoutSocket();
  }

  #socket(): SocketClient | undefined {
    const ws = SocketClient.socket(this.ctx);
    return ws && this.#over(ws);
  }

  #over(ws: WebSocket): SocketClient | undefined {
    if (this.#socketClient?.socket !== ws) this.#socketClient = SocketClient.at(this.#common, ws);
    return this.#socketClient;
  }

  /** The client in storage. If there is none, every method of the transport says so. */
  #withoutSocket(): HttpClient | ResumableClient {
    return this.#isResumable ? this.#resumable() : this.#http();
  }

  #http(): HttpClient {
    this.#httpClient ??= new HttpClient(this.#parts);
    return this.#httpClient;
  }

  #resumable(): ResumableClient {
    this.#resumableClient ??= new ResumableClient(this.#parts);
    return this.#resumableClient;
  }

  get #isResumable(): boolean {
    return this.#store.state?.resumable === true;
  }

  get #store(): ConnectionStore {
    this.#storage ??= new ConnectionStore(this.ctx.storage, this.#limits);
    return this.#storage;
  }

  /** A plain WebSocket needs no storage of its own. */
  get #common(): Omit<ConnectionParts, "store"> {
    return {
      ctx: this.ctx,
      env: this.env,
      deadlines: this.#deadlines,
      lifetime: this.#lifetime,
      logins: new Logins(this.ctx.storage, this.#limits),
      limits: this.#limits,
    };
  }

  get #parts(): ConnectionParts {
    return { ...this.#common, store: this.#store };
  }
}
