/** A reader of an event stream that comes back with `Last-Event-ID` whenever it is cut off. */
import { setTimeout as sleep } from "node:timers/promises";
import { createParser } from "eventsource-parser";

/** The gateway writes a comment at least once a second. */
const SILENT_MS = 4_000;
const RETRY_MS = 50;

export type StreamOptions = {
  url: string;
  headers: Record<string, string>;
  onEvent: (data: string, id: string) => void;
  /** Called with a status that is not 200. */
  onRefused?: (status: number) => void;
};

export class EventStream {
  readonly #options: StreamOptions;
  readonly #closing = new AbortController();
  readonly #ended: Promise<void>;
  #last: string | undefined;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#ended = this.#stay();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#ended;
  }

  async #stay(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      await this.#read().catch(() => {});
      await sleep(RETRY_MS);
    }
  }

  async #read(): Promise<void> {
    const { url, headers, onEvent, onRefused } = this.#options;
    const silence = new AbortController();
    const hear = () => silence.abort();
    let timer = setTimeout(hear, SILENT_MS);
    try {
      const response = await fetch(url, {
        headers: {
          ...headers,
          accept: "text/event-stream",
          ...(this.#last !== undefined && { "last-event-id": this.#last }),
        },
        signal: AbortSignal.any([silence.signal, this.#closing.signal]),
      });
      if (!response.ok || !response.body) {
        onRefused?.(response.status);
        await response.body?.cancel();
        return;
      }
      const parser = createParser({
        onEvent: ({ data, id }) => {
          if (id !== undefined) this.#last = id;
          onEvent(data, id ?? "");
        },
      });
      for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
        clearTimeout(timer);
        timer = setTimeout(hear, SILENT_MS);
        parser.feed(text);
      }
    } finally {
      clearTimeout(timer);
    }
  }
}
