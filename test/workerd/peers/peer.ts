import { exports } from "cloudflare:workers";
import type { Json } from "../../fixtures/json.ts";
import { hostTokenId, token } from "../tokens.ts";

const PONG = '{"jsonrpc":"2.0","id":"acp-edge/ping","error":{"code":-32601,"message":"Method not found"}}';

/** A socket whose messages are taken one by one. */
export class Peer {
  /** Whether the peer answers pings at once, as any client does that does not know the method. */
  answersPings = true;
  readonly socket: WebSocket;
  readonly closed: Promise<{ code: number; reason: string }>;
  #messages: string[] = [];
  #takers: ((text: string) => void)[] = [];

  constructor(socket: WebSocket) {
    this.socket = socket;
    this.closed = new Promise((resolve) => {
      socket.addEventListener("close", ({ code, reason }) => resolve({ code, reason }));
    });
    socket.addEventListener("message", ({ data }) => {
      const text = data as string;
      if (this.answersPings && text.includes('"method":"_acp-edge/ping"')) return socket.send(PONG);
      const taker = this.#takers.shift();
      if (taker) taker(text);
      else this.#messages.push(text);
    });
    socket.accept();
  }

  static async connect(path: string, bearer: string): Promise<Peer> {
    const response = await exports.default.fetch(`https://edge.test${path}`, {
      headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
    });
    if (!response.webSocket) throw new Error(`No socket: ${response.status} ${await response.text()}`);
    return new Peer(response.webSocket);
  }

  send(text: string): void {
    this.socket.send(text);
  }

  take(): Promise<string> {
    const text = this.#messages.shift();
    return text === undefined ? new Promise((resolve) => this.#takers.push(resolve)) : Promise.resolve(text);
  }

  async takeJson(): Promise<Json> {
    return JSON.parse(await this.take()) as Json;
  }
}

/** Opens one of the sockets of a host. */
export async function dialHost(workspace: string, path: string): Promise<WebSocket> {
  const bearer = await token({ workspace, scopes: ["host"], jti: hostTokenId(workspace) });
  const response = await exports.default.fetch(`https://edge.test${path}?workspace=${workspace}`, {
    headers: { Upgrade: "websocket", Authorization: `Bearer ${bearer}` },
  });
  if (!response.webSocket) throw new Error(`No socket: ${response.status}`);
  return response.webSocket;
}
