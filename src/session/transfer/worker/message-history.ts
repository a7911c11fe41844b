import { translateBack } from "../../../protocol/dialects/index.ts";
import { notification } from "../../../protocol/errors.ts";
import { isRecord, type JsonObject, recordOf, textOf } from "../../../protocol/json-value.ts";

/**
 * A conversation as the messages of the container data model: each message is a list of content blocks. `push` takes the
 * envelopes of the log one by one. A prompt that waited belongs where its turn begins, as for clients.
 */
export class MessageHistory {
  readonly #sessionId: string;
  readonly #messages: JsonObject[][] = [];
  readonly #waiting = new Map<unknown, unknown>();
  #speaker: "user" | "agent" | undefined;

  constructor(sessionId: string) {
    this.#sessionId = sessionId;
  }

  get messages(): readonly JsonObject[][] {
    return this.#messages;
  }

  push({ seq, kind, payload: given }: JsonObject): void {
    const payload = recordOf(given);
    if (kind === "acp.frame") return this.#frame(seq, payload);
    if (kind !== "queue.dequeued") return;
    const prompt = this.#waiting.get(payload.seq);
    if (this.#waiting.delete(payload.seq) && payload.dropped === undefined) this.#prompt(prompt);
  }

  #frame(seq: unknown, { direction, stop, message: given }: JsonObject): void {
    const message = recordOf(given);
    const params = recordOf(message.params);
    if (direction === "out" && message.method === "session/prompt") {
      if (stop === "held") this.#waiting.set(seq, params.prompt);
      else if (stop === undefined) this.#prompt(params.prompt);
    }
    const isShown = stop === undefined || stop === "held";
    if (direction === "in" && message.method === "session/update" && isShown) this.#update(params.update);
  }

  #prompt(blocks: unknown): void {
    if (!Array.isArray(blocks)) return;
    this.#speaker = undefined;
    for (const content of blocks) this.#update({ sessionUpdate: "user_message_chunk", content });
  }

  #update(update: unknown): void {
    const text = notification("session/update", { sessionId: this.#sessionId, update });
    const [translated = "{}"] = translateBack("container", text, this.#sessionId);
    const { method, params } = JSON.parse(translated) as JsonObject;
    const { content } = recordOf(params);
    // Updates that are no part of the conversation travel under another method.
    if (method !== "session/update" || !Array.isArray(content)) return;
    const speaker = recordOf(update).sessionUpdate === "user_message_chunk" ? "user" : "agent";
    if (speaker !== this.#speaker) this.#messages.push([]);
    this.#speaker = speaker;
    const message = this.#messages.at(-1) ?? [];
    for (const block of content.filter(isRecord)) join(message, block);
  }
}

/** Adds a block to a message. Chunks of one text become one block. */
function join(message: JsonObject[], block: JsonObject): void {
  const last = message.at(-1);
  if (last && isMoreOf(last, block))
    message[message.length - 1] = { ...last, content: `${text(last)}${text(block)}` };
  else message.push(block);
}

function isMoreOf(last: JsonObject, { type, metadata }: JsonObject): boolean {
  if (type !== last.type || (type !== "text" && type !== "thought")) return false;
  return JSON.stringify(metadata) === JSON.stringify(last.metadata);
}

function text({ content }: JsonObject): string {
  return textOf(content) ?? "";
}
