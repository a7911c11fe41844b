/** A receiver of webhooks as its owner would write it: a real HTTP server that checks signatures. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { Changes } from "./changes.ts";
import type { Gateway } from "./gateway.ts";

export type Hook = { id: string; secret: string };
export type Data = Record<string, unknown> & { sessionId?: string };
/** One request with a valid signature. */
export type Delivery = {
  path: string;
  id: string;
  timestamp: number;
  signature: string;
  message: { type: string; timestamp: string; data: Data };
  raw: string;
};

/** How the receiver treats a request; a number is the status of its response. */
type Answer = (delivery: Delivery, response: ServerResponse) => number | undefined;

export class Receiver implements AsyncDisposable {
  readonly deliveries: Delivery[] = [];
  /** Requests whose signature was not valid. */
  readonly refused: string[] = [];
  answer: Answer = () => 204;
  readonly #server: Server;
  readonly #secrets = new Map<string, string>();
  readonly #changes = new Changes();

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", (request, response) => void this.#receive(request, response));
  }

  static async start(): Promise<Receiver> {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    return new Receiver(server);
  }

  /** Makes a webhook of the gateway's workspace with this receiver's address. */
  async hook(
    { api, workspace }: Pick<Gateway, "api" | "workspace">,
    path: string,
    order: object = {},
  ): Promise<Hook> {
    const url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${path}`;
    const response = await api(`/api/workspaces/${workspace}/webhooks`, {
      method: "POST",
      body: JSON.stringify({ url, ...order }),
    });
    if (response.status !== 201) throw new Error(`HTTP ${response.status} ${await response.text()}`);
    const hook = (await response.json()) as Hook;
    this.#secrets.set(path, hook.secret);
    return hook;
  }

  /** Waits for this many requests that satisfy the condition. */
  async receives(is: (delivery: Delivery) => boolean, count = 1): Promise<[Delivery, ...Delivery[]]> {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const found = this.deliveries.filter(is);
      if (found.length >= count) return found as [Delivery, ...Delivery[]];
      if (Date.now() > deadline) throw new Error(`Not within ${PATIENCE_MS} ms: ${is}`);
      await this.#changes.next(deadline);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? "";
    const raw = await text(request);
    const headers = request.headers as Record<string, string>;
    const secret = this.#secrets.get(path);
    if (secret === undefined) return void response.writeHead(404).end();
    try {
      const message = new Webhook(secret).verify(raw, headers) as Delivery["message"];
      const {
        "webhook-id": id = "",
        "webhook-timestamp": timestamp,
        "webhook-signature": signature = "",
      } = headers;
      const delivery = { path, id, timestamp: Number(timestamp), signature, message, raw };
      this.deliveries.push(delivery);
      const status = this.answer(delivery, response);
      if (status !== undefined) response.writeHead(status).end();
    } catch (error) {
      this.refused.push(String(error));
      response.writeHead(400).end();
    }
    this.#changes.announce();
  }
}

/** A request that takes longer never comes. */
const PATIENCE_MS = 20_000;
