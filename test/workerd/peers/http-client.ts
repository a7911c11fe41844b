import { exports } from "cloudflare:workers";
import type { Json } from "../../fixtures/json.ts";
import { token } from "../tokens.ts";

/** A minimal client of Streamable HTTP. */

export type StreamEvent = { id: string; message: Json };
type Headers = Record<string, string>;

export async function request(
  method: string,
  bearer: string,
  headers: Headers = {},
  body?: string,
): Promise<Response> {
  return exports.default.fetch("https://edge.test/acp", {
    method,
    headers: { Authorization: `Bearer ${bearer}`, ...headers },
    ...(body === undefined ? {} : { body }),
  });
}

/** The status and text of a response. */
export async function reply(response: Response): Promise<[number, string]> {
  return [response.status, await response.text()];
}

export const INITIALIZE = '{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":1}}';
export const JSON_TYPE = { "Content-Type": "application/json" };

export class HttpPeer {
  readonly bearer: string;
  readonly connection: string;
  readonly initialized: Json;
  #nextId = 0;

  constructor(bearer: string, connection: string, initialized: Json) {
    this.bearer = bearer;
    this.connection = connection;
    this.initialized = initialized;
  }

  static async open(workspace: string, initialize = INITIALIZE): Promise<HttpPeer> {
    const bearer = await token({ workspace });
    const response = await request("POST", bearer, JSON_TYPE, initialize);
    const connection = response.headers.get("Acp-Connection-Id") ?? "";
    return new HttpPeer(bearer, connection, (await response.json()) as Json);
  }

  headers(session?: string): Headers {
    return {
      "Acp-Connection-Id": this.connection,
      ...(session === undefined ? {} : { "Acp-Session-Id": session }),
    };
  }

  post(body: string, session?: string, headers: Headers = {}): Promise<Response> {
    return request("POST", this.bearer, { ...JSON_TYPE, ...this.headers(session), ...headers }, body);
  }

  /** Posts a request and returns its id. */
  async call(
    method: string,
    params: Json,
    session = params.sessionId as string | undefined,
  ): Promise<number> {
    const id = this.#nextId++;
    const response = await this.post(JSON.stringify({ jsonrpc: "2.0", id, method, params }), session);
    if (response.status !== 202) throw new Error(`${response.status} ${await response.text()}`);
    return id;
  }

  get(session?: string, lastEventId?: string): Promise<Response> {
    return request("GET", this.bearer, {
      Accept: "text/event-stream",
      ...this.headers(session),
      ...(lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId }),
    });
  }

  async stream(session?: string, lastEventId?: string): Promise<EventReader> {
    const response = await this.get(session, lastEventId);
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    return new EventReader(response);
  }

  delete(): Promise<Response> {
    return request("DELETE", this.bearer, this.headers());
  }
}

/** Takes the events of a stream one by one. */
export class EventReader {
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #events: StreamEvent[] = [];
  #text = "";
  /** The last id that the stream has named, with an event or without. */
  lastEventId: string | undefined;

  constructor(response: Response) {
    this.response = response;
    this.#reader = (response.body as ReadableStream<Uint8Array>).getReader();
  }

  /** The next event; undefined at the end of the stream. */
  async next(): Promise<StreamEvent | undefined> {
    for (;;) {
      const event = this.#events.shift();
      if (event) return event;
      if (!(await this.#read())) return undefined;
    }
  }

  /** False: the stream has ended. */
  async #read(): Promise<boolean> {
    const { done, value } = await this.#reader.read();
    if (done) return false;
    this.#text += this.#decoder.decode(value, { stream: true });
    const blocks = this.#text.split("\n\n");
    this.#text = blocks.pop() as string;
    for (const block of blocks) {
      this.lastEventId = /^id: (\S+)/.exec(block)?.[1] ?? this.lastEventId;
      const match = /^id: (\S+)\ndata: (.*)$/.exec(block);
      if (match)
        this.#events.push({ id: match[1] as string, message: JSON.parse(match[2] as string) as Json });
    }
    return true;
  }

  /** Reads until the stream has named an id. */
  async opened(): Promise<string> {
    while (this.lastEventId === undefined) await this.#read();
    return this.lastEventId;
  }

  async take(): Promise<Json> {
    const event = await this.next();
    if (!event) throw new Error("The stream has ended");
    return event.message;
  }

  /** Takes events up to the response to the given request. */
  async until(id: unknown): Promise<StreamEvent[]> {
    const events: StreamEvent[] = [];
    for (;;) {
      const event = await this.next();
      if (!event) throw new Error("The stream has ended");
      events.push(event);
      if (event.message.id === id && !("method" in event.message)) return events;
    }
  }

  /** Disconnects. */
  cancel(): Promise<void> {
    return this.#reader.cancel();
  }
}
