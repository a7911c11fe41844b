/** A client over Streamable HTTP: it posts its messages and reads its streams with `Last-Event-ID`. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../fixtures/random.ts";
import { EventStream } from "./event-stream.ts";
import { type Message, Peer, type SentAnswers } from "./peer.ts";

const POST_MS = 3_000;
const RETRY_MS = 50;

export class HttpPeer extends Peer {
  /** Statuses that no fault explains. */
  readonly refusals: string[] = [];
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #streams: EventStream[] = [];
  /** Messages leave one after the other. */
  #sending: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(name: string, address: { url: string; token: string }, answers: SentAnswers, random: Random) {
    super(name, answers, random);
    this.#url = address.url;
    this.#headers = { authorization: `Bearer ${address.token}` };
  }

  async open(cwd: string): Promise<void> {
    const initialize = {
      id: 0,
      method: "initialize",
      params: { protocolVersion: 1, clientCapabilities: {} },
    };
    const response = await this.#request(initialize);
    this.#headers["acp-connection-id"] = response.headers.get("acp-connection-id") ?? "";
    await response.body?.cancel();
    this.#listen(this.#headers);
    const result = await this.call("session/new", { cwd, mcpServers: [] });
    this.sessionId = (result as { sessionId: string }).sessionId;
    this.#headers["acp-session-id"] = this.sessionId;
    this.#listen(this.#headers);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([this.#sending, ...this.#streams.map((stream) => stream.close())]);
  }

  protected override transmit(message: Message): void {
    this.#sending = this.#sending.then(() => this.#post(message));
  }

  #listen(headers: Record<string, string>): void {
    const stream = new EventStream({
      url: this.#url,
      headers: { ...headers },
      onEvent: (data) => this.receive(JSON.parse(data) as Message),
      onRefused: (status) => {
        if (status !== 409 && status < 500) this.refusals.push(`GET ${status}`);
      },
    });
    this.#streams.push(stream);
  }

  /**
   * A post without an answer may have arrived or not. A prompt has a key and a permission is answered once, so the post
   * is sent again.
   */
  async #post(message: Message): Promise<void> {
    while (!this.#isClosed) {
      try {
        const { status } = await this.#request(message);
        if (status < 300) return;
        if (status < 500) {
          this.refusals.push(`POST ${message.method ?? "answer"} ${status}`);
          return;
        }
      } catch {
        // The connection was cut.
      }
      await sleep(RETRY_MS);
    }
  }

  async #request(message: Message): Promise<Response> {
    this.noteSent(message);
    const response = await fetch(this.#url, {
      method: "POST",
      headers: { ...this.#headers, "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      signal: AbortSignal.timeout(POST_MS),
    });
    if (response.status !== 200) await response.body?.cancel();
    return response;
  }
}
