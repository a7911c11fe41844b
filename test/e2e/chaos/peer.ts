/** A client of one session: it prompts, answers permission requests, and keeps every update that it gets. */
import type { Random } from "../../fixtures/random.ts";
import { type Script, tokenOf } from "./journal.ts";

export type Message = {
  id?: unknown;
  method?: string;
  params?: Record<string, unknown> & { sessionId?: string; update?: unknown };
  result?: unknown;
  error?: { code: number; message: string };
};

/** How a prompt ended, as its client was told. */
export type PromptEnd = { mark: string; error?: string };

/** The answers to permission requests that clients have sent, by the id of the request. */
export type SentAnswers = Map<string, string[]>;

type Waiting = { script: Script; end: (end: PromptEnd) => void };

export abstract class Peer {
  readonly name: string;
  /** The updates of the session in the order of their arrival, as `mark#n`. */
  readonly seen: string[] = [];
  /** How often each request was sent and answered, by its id. */
  readonly requests = new Map<string, { sent: number; answered: number }>();
  sessionId = "";
  readonly #answers: SentAnswers;
  readonly #random: Random;
  readonly #waiting = new Map<string, Waiting>();
  readonly #marks = new Map<string, string>();
  readonly #calls = new Map<string, (message: Message) => void>();
  #ids = 0;

  constructor(name: string, answers: SentAnswers, random: Random) {
    this.name = name;
    this.#answers = answers;
    this.#random = random;
  }

  /** Opens the session of this client. */
  abstract open(cwd: string): Promise<void>;
  abstract close(): Promise<void>;
  protected abstract transmit(message: Message): void;

  /** Resolves when the client is told how the prompt ended. */
  prompt(script: Script): Promise<PromptEnd> {
    return new Promise((end) => {
      this.#waiting.set(script.mark, { script, end });
      this.#send(script);
    });
  }

  /** The prompts without an answer. */
  get unanswered(): string[] {
    return [...this.#waiting.keys()];
  }

  /** Sends the prompts again that have no answer yet. A prompt that comes a second time under its key runs once. */
  protected repeatPrompts(): void {
    for (const { script } of this.#waiting.values()) this.#send(script);
  }

  protected async call(method: string, params: object): Promise<unknown> {
    const id = this.#nextId();
    const { promise, resolve } = Promise.withResolvers<Message>();
    this.#calls.set(id, resolve);
    this.transmit({ id, method, params: { ...params } });
    const { result, error } = await promise;
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  }

  /** A request leaves. One that leaves twice is two requests. */
  protected noteSent({ id, method }: Message): void {
    if (method !== undefined) this.#count(String(id), "sent");
  }

  /** No call is answered on the transport that is lost. */
  protected forgetCalls(): void {
    for (const [id, resolve] of this.#calls) resolve({ id, error: { code: 0, message: "connection lost" } });
    this.#calls.clear();
  }

  protected receive(message: Message): void {
    const { id, method, params } = message;
    if (method === undefined) return this.#answered(String(id), message);
    if (method === "session/update" && params?.sessionId === this.sessionId) {
      const token = tokenOf(params.update);
      if (token !== undefined) this.seen.push(token);
    }
    if (method === "session/request_permission") this.#decide(String(id));
    else if (id !== undefined) this.transmit({ id, error: { code: -32601, message: "Method not found" } });
  }

  /** Each client answers as it likes, and the first answer counts. */
  #decide(id: string): void {
    const optionId = this.#random.pick(["yes", "no", "perhaps"]);
    this.#answers.set(id, [...(this.#answers.get(id) ?? []), optionId]);
    this.transmit({ id, result: { outcome: { outcome: "selected", optionId } } });
  }

  #answered(id: string, message: Message): void {
    this.#count(id, "answered");
    this.#calls.get(id)?.(message);
    this.#calls.delete(id);
    const mark = this.#marks.get(id);
    const waiting = mark === undefined ? undefined : this.#waiting.get(mark);
    if (mark === undefined || !waiting) return;
    this.#waiting.delete(mark);
    waiting.end({ mark, ...(message.error && { error: message.error.message }) });
  }

  #count(id: string, what: "sent" | "answered"): void {
    const request = this.requests.get(id) ?? { sent: 0, answered: 0 };
    request[what] += 1;
    this.requests.set(id, request);
  }

  #send(script: Script): void {
    const id = this.#nextId();
    this.#marks.set(id, script.mark);
    const prompt = [{ type: "text", text: JSON.stringify(script) }];
    const _meta = { "acp-edge/idempotencyKey": script.mark };
    this.transmit({ id, method: "session/prompt", params: { sessionId: this.sessionId, prompt, _meta } });
  }

  #nextId(): string {
    this.#ids += 1;
    return `${this.name}/${this.#ids}`;
  }
}
