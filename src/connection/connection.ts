import { DurableObject } from "cloudflare:workers";
import type { Caller } from "../protocol/caller.ts";
import { answerClose } from "../protocol/close.ts";
import type { ClientPort, Page, Position, Taken } from "../session/fanout.ts";
import type { Handover } from "./client.ts";
import { HttpClient, type Outcome, type Post, type StreamRequest } from "./http-client.ts";
import { Readers } from "./readers.ts";
import { SocketClient } from "./socket-client.ts";

/**
 * One client connection: speaks JSON-RPC with one client, over a WebSocket or over HTTP, and passes its frames
 * to the sessions they name. At rest it is a socket that hibernates, or a few rows.
 */
export class AcpConnection extends DurableObject<Env> implements ClientPort {
  #socketClient: SocketClient | undefined;
  #httpClient: HttpClient | undefined;

  override async fetch(request: Request): Promise<Response> {
    const stream = request.headers.get("X-Acp-Stream");
    if (stream !== null) return this.#openStream(JSON.parse(stream) as StreamRequest);
    return SocketClient.accept(this.ctx, JSON.parse(request.headers.get("X-Acp-Handover") ?? "") as Handover);
  }

  async #openStream(request: StreamRequest): Promise<Response> {
    const opened = await this.#http().open(request);
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
    const { connection } = client.state;
    this.#socketClient = undefined;
    await Promise.all(
      client.sessions().map((sessionId) => this.env.ACP_SESSION_DO.getByName(sessionId).detach(connection)),
    );
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

  override alarm(): Promise<void> {
    return this.#http().expire();
  }

  // ---- from sessions ----------------------------------------------------------------------------------

  async position(sessionId: string): Promise<Position | null> {
    const ws = SocketClient.socket(this.ctx);
    return ws ? this.#over(ws).position(sessionId) : this.#http().position(sessionId);
  }

  /** The agent of one session has taken a login or a logout. */
  async relay(sessionId: string, raw: string): Promise<void> {
    const ws = SocketClient.socket(this.ctx);
    await (ws ? this.#over(ws) : this.#http()).relay(sessionId, raw);
  }

  async deliver(sessionId: string, page: Page): Promise<Taken> {
    const ws = SocketClient.socket(this.ctx);
    return ws ? this.#over(ws).deliver(sessionId, page) : this.#http().deliver(sessionId, page);
  }

  // ---- the client -------------------------------------------------------------------------------------

  #over(ws: WebSocket): SocketClient {
    if (this.#socketClient?.socket !== ws) this.#socketClient = new SocketClient(this.ctx, this.env, ws);
    return this.#socketClient;
  }

  #http(): HttpClient {
    this.#httpClient ??= new HttpClient(this.ctx, this.env);
    return this.#httpClient;
  }
}
