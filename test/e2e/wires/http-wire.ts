/** Messages over Streamable HTTP: each is posted; answers and calls come on event streams, one per session. */
import { createParser } from "eventsource-parser";
import type { Wire, WireEvents } from "./wire.ts";

type Parsed = { id?: unknown; method?: string; params?: { sessionId?: string }; result?: unknown };

const encoder = new TextEncoder();

export function httpWire(url: string, token: string, events: WireEvents): Wire {
  return new HttpWire(url, token, events);
}

class HttpWire implements Wire {
  /** The session's stream and the connection's are read independently. */
  readonly isOrdered = false;
  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #events: WireEvents;
  readonly #streams = new Map<string, Promise<void>>();
  /** The sessions of the agent's requests, by the ids of the requests. */
  readonly #sessionOf = new Map<unknown, string>();
  /** Messages leave one after the other. */
  #sending: Promise<void> = Promise.resolve();

  constructor(url: string, token: string, events: WireEvents) {
    this.#url = url;
    this.#headers = { authorization: `Bearer ${token}` };
    this.#events = events;
  }

  send(text: string): void {
    this.#sending = this.#sending.then(() => this.#post(text)).catch((error) => this.#refuse(error));
  }

  async end(): Promise<string> {
    await this.#sending;
    const { status } = await fetch(this.#url, { method: "DELETE", headers: this.#headers });
    await Promise.all(this.#streams.values());
    return String(status);
  }

  async #post(text: string): Promise<void> {
    const message = parsed(text);
    const session = message?.params?.sessionId ?? this.#sessionOf.get(message?.id);
    if (session !== undefined) await this.#listen(session);
    const response = await fetch(this.#url, {
      method: "POST",
      headers: {
        ...this.#headers,
        "content-type": "application/json",
        ...(session !== undefined && { "acp-session-id": session }),
      },
      body: text,
    });
    const body = new Uint8Array(await response.arrayBuffer());
    if (response.status === 200 && message?.method === "initialize") {
      this.#headers["acp-connection-id"] = response.headers.get("acp-connection-id") ?? "";
      await this.#listen("");
      return this.#events.onMessage(body);
    }
    if (response.status !== 202) this.#refuse(`HTTP ${response.status}`);
  }

  /** Opens the stream of a session, or of the connection under an empty name, and reads it until its end. */
  async #listen(session: string): Promise<void> {
    if (this.#streams.has(session)) return;
    const response = await fetch(this.#url, {
      headers: {
        ...this.#headers,
        accept: "text/event-stream",
        ...(session !== "" && { "acp-session-id": session }),
      },
    });
    if (!response.ok || !response.body) throw new Error(`GET: HTTP ${response.status}`);
    this.#streams.set(
      session,
      this.#read(response.body).catch((error) => this.#refuse(error)),
    );
  }

  async #read(body: ReadableStream<BufferSource>): Promise<void> {
    const parser = createParser({ onEvent: ({ data }) => this.#receive(data) });
    for await (const text of body.pipeThrough(new TextDecoderStream("utf-8", { fatal: true })))
      parser.feed(text);
  }

  #receive(data: string): void {
    const { id, method, params, result } = parsed(data) ?? {};
    if (method !== undefined && id !== undefined && params?.sessionId !== undefined)
      this.#sessionOf.set(id, params.sessionId);
    // The stream of a new session is open before its client learns of the session.
    const opened = (result as { sessionId?: unknown } | null | undefined)?.sessionId;
    const tell = () => this.#events.onMessage(encoder.encode(data));
    if (typeof opened !== "string") return tell();
    this.#listen(opened).then(tell, (error) => this.#refuse(error));
  }

  #refuse(reason: unknown): void {
    this.#events.onRefusal(String(reason));
  }
}

function parsed(text: string): Parsed | undefined {
  try {
    return JSON.parse(text) as Parsed;
  } catch {
    return undefined;
  }
}
