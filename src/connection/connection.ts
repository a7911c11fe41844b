import { DurableObject } from "cloudflare:workers";
import type { Caller } from "../protocol/caller.ts";
import { answerClose } from "../protocol/close.ts";
import { notification } from "../protocol/errors.ts";
import { DEADLINE_SCHEMA, Deadlines } from "../session/deadlines.ts";
import type { ClientPort, Page, Position, Taken } from "../session/fanout.ts";
import type { Handover } from "./client.ts";
import { HttpClient, type Outcome, type Post, type StreamRequest } from "./http-client.ts";
import { Readers } from "./readers.ts";
import { expiresAt, TOKEN_EXPIRING } from "./renew.ts";
import { SocketClient } from "./socket-client.ts";
import { type ConnectionDeadline, EXPIRED, REVOKED, TokenLife } from "./token-life.ts";

/**
 * One client connection: speaks JSON-RPC with one client, over a WebSocket or over HTTP, and passes its frames
 * to the sessions they name. At rest it is a socket that hibernates, or a few rows.
 */
export class AcpConnection extends DurableObject<Env> implements ClientPort {
  #socketClient: SocketClient | undefined;
  #httpClient: HttpClient | undefined;

  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #life: TokenLife;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#deadlines = new Deadlines(ctx.storage);
    this.#life = new TokenLife(ctx, env, this.#deadlines, () => ctx.waitUntil(this.#end(REVOKED)));
  }

  override async fetch(request: Request): Promise<Response> {
    const stream = request.headers.get("X-Acp-Stream");
    if (stream !== null) return this.#openStream(JSON.parse(stream) as StreamRequest);
    const handover = JSON.parse(request.headers.get("X-Acp-Handover") ?? "") as Handover;
    const response = SocketClient.accept(this.ctx, handover);
    const client = this.#socket();
    if (client) this.#life.begin(client.state);
    return response;
  }

  #openStream(request: StreamRequest): Response {
    const opened = this.#http().open(request);
    return opened instanceof WebSocket
      ? new Response(null, { status: 101, webSocket: opened })
      : new Response(opened.reason, { status: opened.status });
  }

  // ---- sockets: of the client, or of the readers of its event streams ---------------------------------

  override webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    if (this.#socketClient?.socket !== ws && Readers.isReader(ws)) return this.#http().next(ws);
    return this.#over(ws).receive(message);
  }

  override async webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    if (Readers.isReader(ws)) return this.#http().readerGone(ws);
    const client = this.#over(ws);
    const { state } = client;
    this.#socketClient = undefined;
    await this.ctx.storage.deleteAll();
    await Promise.all([
      this.#life.end(state),
      ...client.sessions().map((id) => this.env.ACP_SESSION_DO.getByName(id).detach(state.connection)),
    ]);
  }

  override webSocketError(ws: WebSocket): void {
    if (Readers.isReader(ws)) this.#http().readerGone(ws);
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

  override async alarm(): Promise<void> {
    this.ctx.storage.sql.exec(DEADLINE_SCHEMA);
    for (const name of this.#deadlines.due(Date.now())) {
      switch (name) {
        case "idle":
          await this.#http().expire();
          break;
        case "token-warning":
          this.#warn();
          break;
        case "token-expiry":
          if (this.#socket()) await this.#end(EXPIRED);
          else this.#http().stopReading(EXPIRED);
      }
    }
  }

  #warn(): void {
    const client = this.#socket() ?? this.#http();
    client.notify((caller) => notification(TOKEN_EXPIRING, { expiresAt: expiresAt(caller) }));
  }

  /** Its token, or its session, was revoked. */
  endSocket(_id: string, reason: string): Promise<void> {
    return this.#end(reason);
  }

  async #end(reason: string): Promise<void> {
    const client = this.#socket();
    if (client) client.end(reason);
    else await this.#http().end();
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  async position(sessionId: string, attach: number): Promise<Position | null> {
    return (this.#socket() ?? this.#http()).position(sessionId, attach);
  }

  async deliver(sessionId: string, page: Page): Promise<Taken> {
    return (this.#socket() ?? this.#http()).deliver(sessionId, page);
  }

  // ---- the client -------------------------------------------------------------------------------------

  #over(ws: WebSocket): SocketClient {
    if (this.#socketClient?.socket !== ws)
      this.#socketClient = new SocketClient(this.ctx, this.env, ws, this.#life);
    return this.#socketClient;
  }

  #socket(): SocketClient | undefined {
    const ws = SocketClient.socket(this.ctx);
    return ws && this.#over(ws);
  }

  #http(): HttpClient {
    this.#httpClient ??= new HttpClient(this.ctx, this.env, this.#deadlines, this.#life);
    return this.#httpClient;
  }
}
