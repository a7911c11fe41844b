import { DurableObject } from "cloudflare:workers";
import { closeUnreadable, socketKind } from "../durable/attachments.ts";
import { Deadlines } from "../durable/deadlines.ts";
import { sessionObject } from "../durable/object-names.ts";
import type { Caller } from "../protocol/caller.ts";
import { answerClose, CloseCode } from "../protocol/close-codes.ts";
import { notification } from "../protocol/errors.ts";
import { ExtensionMethod } from "../protocol/extensions.ts";
import { HANDOVER, RESUMPTION, STREAM, type StreamRequest } from "../protocol/internal-headers.ts";
import { RESUMABLE } from "../protocol/resumable-wire.ts";
import type { ClientPort, DeliveryResult, Handover, Page, ReaderPosition } from "../protocol/rpc.ts";
import { ConnectionStore } from "./connection-store.ts";
import { expiresAt } from "./methods/renew-token.ts";
import { type ConnectionDeadline, EXPIRED, REVOKED, TokenLife } from "./token-lifetime.ts";
import { ResumableClient } from "./transports/resumable.ts";
import { HttpClient, type Outcome, type Post } from "./transports/streamable-http.ts";
import { SocketClient } from "./transports/web-socket.ts";

/**
 * One client connection: speaks JSON-RPC with one client, over a WebSocket or over HTTP, and passes its frames
 * to the sessions they name. At rest it is a socket that hibernates, or a few rows.
 */
export class AcpConnection extends DurableObject<Env> implements ClientPort {
  #socketClient: SocketClient | undefined;
  #httpClient: HttpClient | undefined;
  #resumableClient: ResumableClient | undefined;
  #stored: ConnectionStore | undefined;

  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #life: TokenLife;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#deadlines = new Deadlines(ctx.storage);
    this.#life = new TokenLife(ctx, env, this.#deadlines, () => ctx.waitUntil(this.#end(REVOKED)));
  }

  override async fetch(request: Request): Promise<Response> {
    const stream = STREAM.read(request.headers);
    if (stream) return this.#openStream(stream);
    const handover = HANDOVER.read(request.headers);
    if (!handover) return new Response("Not a client", { status: 400 });
    const resumption = RESUMPTION.read(request.headers);
    if (!resumption) return this.#accept(handover);
    const socket = this.#resumable().accept(handover, resumption);
    if (!socket) return new Response("Unknown Acp-Connection-Id", { status: 404 });
    const headers = { "Acp-Connection-Id": handover.connection, "Sec-WebSocket-Protocol": RESUMABLE };
    return new Response(null, { status: 101, webSocket: socket, headers });
  }

  async #accept(handover: Handover): Promise<Response> {
    const response = SocketClient.accept(this.ctx, handover);
    const client = this.#socket();
    if (client) this.#life.begin(client.state);
    await this.#listen();
    return response;
  }

  async #openStream(request: StreamRequest): Promise<Response> {
    const opened = await this.#http().open(request);
    return opened instanceof WebSocket
      ? new Response(null, { status: 101, webSocket: opened })
      : new Response(opened.reason, { status: opened.status });
  }

  // ---- sockets: of the client, or of the readers of its event streams ---------------------------------

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
        return this.#left(this.#over(ws));
      case "resumable":
        return this.#resumable().closed(ws, code);
      case "stream-reader":
        return this.#http().readerGone(ws);
    }
  }

  /** A client is gone with its socket, or is taken for gone. */
  async #left(client: SocketClient | undefined): Promise<void> {
    if (!client?.leave()) return;
    const { caller, connection } = client.state;
    const sessions = client.sessions().map((id) => sessionObject(this.env, caller.tenant, id));
    this.#socketClient = undefined;
    this.#deadlines.forget();
    await this.ctx.storage.deleteAll();
    await Promise.all([
      client.settled().then((last) => this.#life.end(last)),
      ...sessions.map((session) => session.detach(connection)),
    ]);
  }

  // ---- over HTTP --------------------------------------------------------------------------------------

  initialize(handover: Handover, raw: string): Promise<string> {
    return this.#http().initialize(handover, raw);
  }

  post(post: Post): Promise<Outcome> {
    return this.#http().post(post);
  }

  remove(caller: Caller): Promise<Outcome> {
    return this.#http().remove(caller);
  }

  // ---- time and rights --------------------------------------------------------------------------------

  override alarm(): Promise<void> {
    return this.#deadlines.run(Date.now(), {
      handshake: () => this.#endUnused(),
      idle: () => this.#withoutSocket().expire(),
      silence: () => this.#listen(),
      "token-warning": () =>
        this.#client().notify((caller) =>
          notification(ExtensionMethod.tokenExpiring, { expiresAt: expiresAt(caller) }),
        ),
      "token-expiry": () => (this.#socket() ? this.#end(EXPIRED) : this.#withoutSocket().hangUp(EXPIRED)),
    });
  }

  /** Whoever connects means to speak. On `/agent/ws` somebody may take their time to choose an agent. */
  async #endUnused(): Promise<void> {
    const client = this.#socket() ?? (this.#store.state?.resumable ? this.#resumable() : undefined);
    if (client && !client.state.initialized && !client.state.control)
      await client.end("not initialized in time", CloseCode.protocolError);
  }

  /** One who has said nothing for long is asked, or let go. That decides nothing: what it has begun goes on. */
  async #listen(): Promise<void> {
    const client = this.#socket();
    if (!client) return this.#store.state?.resumable ? this.#resumable().listen() : undefined;
    const verdict = client.listen(Date.now());
    if (typeof verdict === "number") return this.#deadlines.set("silence", verdict);
    client.end(verdict, CloseCode.goingAway);
    await this.#left(client);
  }

  /** Its token, or its session, was revoked. */
  endSocket(_id: string, reason: string): Promise<void> {
    return this.#end(reason);
  }

  async #end(reason: string): Promise<void> {
    await this.#client().end(reason);
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  async startReading(sessionId: string): Promise<ReaderPosition | null> {
    return this.#client().startReading(sessionId);
  }

  /** The agent of one session has taken a login or a logout. */
  async relay(sessionId: string, raw: string): Promise<void> {
    await this.#client().relay(sessionId, raw);
  }

  async deliver(sessionId: string, page: Page): Promise<DeliveryResult> {
    return this.#client().deliver(sessionId, page);
  }

  // ---- the client -------------------------------------------------------------------------------------

  #over(ws: WebSocket): SocketClient | undefined {
    if (this.#socketClient?.socket !== ws)
      this.#socketClient = SocketClient.at(this.ctx, this.env, ws, this.#life);
    return this.#socketClient;
  }

  #socket(): SocketClient | undefined {
    const ws = SocketClient.socket(this.ctx);
    return ws && this.#over(ws);
  }

  get #store(): ConnectionStore {
    this.#stored ??= new ConnectionStore(this.ctx.storage);
    return this.#stored;
  }

  #client(): SocketClient | HttpClient | ResumableClient {
    return this.#socket() ?? this.#withoutSocket();
  }

  /** A client that lives without a socket; if there is none at all, it says so itself. */
  #withoutSocket(): HttpClient | ResumableClient {
    return this.#store.state?.resumable ? this.#resumable() : this.#http();
  }

  #http(): HttpClient {
    this.#httpClient ??= new HttpClient(this.ctx, this.env, this.#store, this.#deadlines, this.#life);
    return this.#httpClient;
  }

  #resumable(): ResumableClient {
    this.#resumableClient ??= new ResumableClient(
      this.ctx,
      this.env,
      this.#store,
      this.#deadlines,
      this.#life,
    );
    return this.#resumableClient;
  }
}
