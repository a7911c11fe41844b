/** A JSON-RPC client over any wire. It keeps every message of both directions, and answers the agent's requests. */
import type { SessionUpdate } from "@agentclientprotocol/sdk";
import { type Message, Transcript } from "../client.ts";
import type { Connect } from "./transports.ts";
import { decode, type Wire } from "./wire.ts";

export type Frame = {
  by: "client" | "server";
  text: string;
  /** Absent if the text is not a JSON object. */
  message?: Message;
  /** The test breaks a rule with this message on purpose. */
  isDeliberate?: boolean;
};

export type Answer = { result: unknown } | { error: { code: number; message: string } };
/** Answers a request of the agent, later or never. */
export type Answering = (request: Message) => Answer | Promise<Answer> | undefined;

export type Turn = {
  response: Message;
  updates: SessionUpdate[];
  requests: Message[];
  /** All messages from the prompt to its response, of other sessions too. */
  frames: Frame[];
};

export type Block = Record<string, unknown> & { type: string };

export const text = (value: string): Block[] => [{ type: "text", text: value }];

export class WireClient {
  readonly frames = new Transcript<Frame>();
  /** The reasons for which the transport, not the protocol, refused messages. */
  readonly refusals: string[] = [];
  answering: Answering = (request) => minimalAnswer(request, false);
  #wire: Wire | undefined;
  #lastId = 0;

  /** Connects without sending anything. */
  static async connect(connect: Connect): Promise<WireClient> {
    const client = new WireClient();
    client.#wire = await connect({
      onMessage: (bytes) => client.#receive(decode(bytes)),
      onRefusal: (reason) => void client.refusals.push(reason),
    });
    return client;
  }

  static async open(connect: Connect, clientCapabilities: object): Promise<WireClient> {
    const client = await WireClient.connect(connect);
    await client.request("initialize", { protocolVersion: 1, clientCapabilities });
    return client;
  }

  get wire(): Wire {
    return this.#wire as Wire;
  }

  sendText(value: string, isDeliberate = false): void {
    this.frames.push({ by: "client", text: value, ...parsed(value), isDeliberate });
    this.wire.send(value);
  }

  send(message: Message, isDeliberate = false): void {
    this.sendText(JSON.stringify({ jsonrpc: "2.0", ...message }), isDeliberate);
  }

  notify(method: string, params: object): void {
    this.send({ method, params: { ...params } });
  }

  /** Sends a request and resolves to its response. */
  async request(
    method: string,
    params: object,
    { id = ++this.#lastId, isDeliberate = false }: { id?: unknown; isDeliberate?: boolean } = {},
  ): Promise<Message> {
    const from = this.frames.entries.length;
    this.send({ id, method, params: { ...params } }, isDeliberate);
    const isResponse = ({ by, message }: Frame) => by === "server" && !message?.method && message?.id === id;
    return (await this.frames.until(isResponse, from)).message as Message;
  }

  /**
   * A request of no meaning that goes to the agent and back. Whatever the agent sent before its answer has arrived when
   * the answer has, so the absence of a message needs no waiting.
   */
  async fence(sessionId: string): Promise<void> {
    await this.request("_suite/fence", { sessionId });
  }

  /** Runs a turn; `during` acts once the agent has said something, and its requests are answered meanwhile. */
  async prompt(sessionId: string, prompt: Block[], options: PromptOptions = {}): Promise<Turn> {
    const { during, meta } = options;
    const from = this.frames.entries.length;
    const running = this.request("session/prompt", { sessionId, prompt, ...(meta && { _meta: meta }) });
    if (during) {
      const says = ({ by, message }: Frame) =>
        by === "server" && isUpdateOf(message, sessionId, "agent_message_chunk");
      await Promise.race([running, this.frames.until(says, from)]);
      await during();
    }
    const response = await running;
    return { response, ...this.since(from, sessionId) };
  }

  /** The updates and requests of a session that arrived from a place in the transcript on. */
  since(from: number, sessionId: string): Omit<Turn, "response"> {
    const frames = this.frames.entries.slice(from);
    const received = frames.flatMap(({ by, message }) => {
      return by === "server" && message?.params?.sessionId === sessionId ? [message] : [];
    });
    return {
      frames,
      updates: received.flatMap(({ params }) => (params?.update ? [params.update] : [])),
      requests: received.filter(({ id, method }) => id !== undefined && method !== undefined),
    };
  }

  end(): Promise<string> {
    return this.wire.end();
  }

  #receive(value: string): void {
    const frame: Frame = { by: "server", text: value, ...parsed(value) };
    this.frames.push(frame);
    if (frame.message?.method === undefined || frame.message.id === undefined) return;
    void this.#answer(frame.message);
  }

  async #answer(request: Message): Promise<void> {
    const answer = await this.answering(request);
    if (answer) this.send({ id: request.id, ...answer });
  }
}

export type PromptOptions = { during?: () => Promise<void> | void; meta?: object };

/** The answers of a client that offers nothing: the first option of a permission, and no other method. */
export function minimalAnswer({ method, params }: Message, isCancelled: boolean): Answer {
  if (method !== "session/request_permission")
    return { error: { code: -32601, message: `Method not found: ${method}` } };
  const [first] = (params?.options ?? []) as { optionId: string }[];
  if (isCancelled || !first) return { result: { outcome: { outcome: "cancelled" } } };
  return { result: { outcome: { outcome: "selected", optionId: first.optionId } } };
}

export function isUpdateOf(message: Message | undefined, sessionId: string, kind?: string): boolean {
  const { method, params } = message ?? {};
  if (method !== "session/update" || params?.sessionId !== sessionId) return false;
  return kind === undefined || params.update?.sessionUpdate === kind;
}

function parsed(value: string): { message?: Message } {
  try {
    const message: unknown = JSON.parse(value);
    return typeof message === "object" && message !== null && !Array.isArray(message)
      ? { message: message as Message }
      : {};
  } catch {
    return {};
  }
}
