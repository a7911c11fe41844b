import type { Timing } from "../../node/timing.ts";
import { type HostEvent, NOISE_CHARS } from "../../protocol/host-wire.ts";
import { replaceAt, spanAt } from "../../protocol/json-edit.ts";
import { isRecord } from "../../protocol/json-value.ts";
import { RedactedStream } from "./redacted-stream.ts";
import type { Redactor } from "./redactor.ts";

/** Beyond these numbers held items are released, whatever they end in. */
const HELD_CHARS_MAX = 1 << 18;
const HELD_ITEMS_MAX = 10_000;
const STREAMS_MAX = 64;

/** The texts that agents send in pieces, by their path in an update. */
const STREAMED_TEXTS: readonly (readonly string[])[] = [
  ["content", "text"],
  ["_meta", "terminal_output", "data"],
];

const NOISE = "noise";

/** `isUrgent`: somebody waits for the item. */
type Item = { text: string | undefined; isUrgent: boolean };
/** Takes items that may leave; `isUrgent`: somebody waits for one of them. */
type ItemSink = (items: readonly string[], isUrgent: boolean) => void;
type TimedStream = { stream: RedactedStream; until: number };

/**
 * Everything that leaves the host about one agent process, in order and without secrets. Agents stream their texts, so a
 * secret can be cut anywhere: an item that may end in the beginning of a secret waits for the next piece of the same
 * text, for a short time. The items after it wait with it, except that a request, a response and an event of the host
 * release all items before them, because somebody waits for these.
 */
export class RedactedOutput {
  readonly #redactor: Redactor;
  readonly #timing: Pick<Timing, "holdMinMs" | "holdMaxMs">;
  readonly #sink: ItemSink;
  readonly #streams = new Map<string, TimedStream>();
  /** All items from the first one that is held. */
  #waiting: Item[] = [];
  #timer: NodeJS.Timeout | undefined;
  #timerDue = 0;

  constructor(redactor: Redactor, timing: Pick<Timing, "holdMinMs" | "holdMaxMs">, sink: ItemSink) {
    this.#redactor = redactor;
    this.#timing = timing;
    this.#sink = sink;
  }

  /** A frame of the agent, and its parsed form. */
  frame(raw: string, message: Readonly<Record<string, unknown>>): void {
    const streamed = streamedText(message);
    if (streamed) {
      const { key, path, text } = streamed;
      const place = ["params", "update", ...path];
      this.#stream(key, text, (safe) => {
        const piece = safe === undefined ? raw : replaceAt(raw, place, JSON.stringify(safe));
        if (isSnapshot(message)) return this.#redactor.redactJson(this.#redactBeside(piece, place));
        return this.#redactor.redactJson(piece, safe === undefined ? message : undefined);
      });
      return;
    }
    const isUrgent = message.id !== undefined;
    if (isUrgent) this.#flushStreams();
    const safe = isSnapshot(message)
      ? this.#redactor.redactSnapshot(raw)
      : this.#redactor.redactJson(raw, message);
    this.#add(safe, isUrgent);
  }

  /** Redacts a snapshot except for the piece of a stream in it, whose end the stream has looked at. */
  #redactBeside(raw: string, place: readonly string[]): string {
    const span = spanAt(raw, place);
    if (!span) return raw;
    const beside = this.#redactor.redactSnapshot(replaceAt(raw, place, '""'));
    return replaceAt(beside, place, raw.slice(span.start, span.end));
  }

  /** A line of the agent that is no frame. */
  noise(text: string): void {
    // A secret that the limit would cut has to be recognised first.
    const kept = text.slice(0, NOISE_CHARS + this.#redactor.reach);
    this.#stream(NOISE, `${kept}\n`, (safe) => {
      const line = safe === undefined ? kept : safe.replace(/\n$/, "");
      return JSON.stringify([NOISE, line.slice(0, NOISE_CHARS)] satisfies HostEvent);
    });
  }

  /** A piece of the output of a terminal that the host serves. */
  terminalOutput(terminalId: string, data: string): void {
    this.#stream(`terminal ${terminalId}`, data, (safe) =>
      JSON.stringify(["terminal_output", { terminalId, data: safe ?? data }] satisfies HostEvent),
    );
  }

  event(event: HostEvent): void {
    this.#flushStreams();
    this.#add(JSON.stringify(this.#redactedEvent(event)), true);
  }

  /** Releases everything that is held. */
  flush(): void {
    this.#flushStreams();
    this.#settle();
  }

  #redactedEvent(event: HostEvent): HostEvent {
    // A frame within an event has escapes of its own.
    if (event[0] === "answer" || event[0] === "sent") return [event[0], this.#redactor.redactJson(event[1])];
    return JSON.parse(this.#redactor.redactJson(JSON.stringify(event))) as HostEvent;
  }

  #stream(key: string, text: string, render: (safe: string | undefined) => string): void {
    const item: Item = { text: undefined, isUrgent: false };
    this.#waiting.push(item);
    const timed = this.#streamOf(key);
    timed.stream.push(text, (safe) => {
      item.text = render(safe);
    });
    if (timed.stream.isHolding) timed.until = Date.now() + this.#holdMs(timed.stream.openChars);
    if (timed.stream.chars > HELD_CHARS_MAX || this.#waiting.length > HELD_ITEMS_MAX) this.#flushStreams();
    this.#settle();
  }

  #streamOf(key: string): TimedStream {
    let timed = this.#streams.get(key);
    if (!timed) {
      if (this.#streams.size >= STREAMS_MAX) {
        this.#flushStreams();
        this.#streams.clear();
      }
      timed = { stream: new RedactedStream(this.#redactor), until: 0 };
      this.#streams.set(key, timed);
    }
    return timed;
  }

  /** A single character is the beginning of some secret often, several hardly ever. */
  #holdMs(openChars: number): number {
    const { holdMinMs, holdMaxMs } = this.#timing;
    return Math.min(holdMaxMs, holdMinMs * 2 ** Math.max(0, openChars - 1));
  }

  #add(text: string, isUrgent: boolean): void {
    this.#waiting.push({ text, isUrgent });
    if (this.#waiting.length > HELD_ITEMS_MAX) this.#flushStreams();
    this.#settle();
  }

  #flushStreams(): void {
    for (const { stream } of this.#streams.values()) stream.flush();
  }

  /** Passes on the items before the first one that is held. */
  #settle(): void {
    const ready: string[] = [];
    let hasUrgent = false;
    for (const { text, isUrgent } of this.#waiting) {
      if (text === undefined) break;
      ready.push(text);
      hasUrgent ||= isUrgent;
    }
    if (ready.length > 0) {
      this.#waiting = this.#waiting.slice(ready.length);
      this.#sink(ready, hasUrgent);
    }
    if (this.#waiting.length > 0) this.#releaseAt(this.#nextRelease());
  }

  /** A timer that is due earlier stays: most items are released by the next piece of their text. */
  #releaseAt(time: number): void {
    if (this.#timer !== undefined && this.#timerDue <= time) return;
    clearTimeout(this.#timer);
    this.#timerDue = time;
    this.#timer = setTimeout(() => this.#release(), time - Date.now());
  }

  #nextRelease(): number {
    const holding = [...this.#streams.values()].filter(({ stream }) => stream.isHolding);
    return Math.min(...holding.map(({ until }) => until));
  }

  #release(): void {
    this.#timer = undefined;
    const now = Date.now();
    for (const { stream, until } of this.#streams.values()) if (until <= now) stream.flush();
    this.#settle();
  }
}

/** Whether a message carries a tool call. Agents send it again and again while its texts grow. */
function isSnapshot({ method, params }: Readonly<Record<string, unknown>>): boolean {
  if (method === "session/request_permission") return true;
  if (method !== "session/update" || !isRecord(params) || !isRecord(params.update)) return false;
  const { sessionUpdate } = params.update;
  return sessionUpdate === "tool_call" || sessionUpdate === "tool_call_update";
}

/** The piece of a text that an update carries, with its path, and a key that all pieces of this text share. */
function streamedText({ id, method, params }: Readonly<Record<string, unknown>>) {
  if (id !== undefined || method !== "session/update" || !isRecord(params) || !isRecord(params.update))
    return undefined;
  const { update, sessionId } = params;
  for (const path of STREAMED_TEXTS) {
    let value: unknown = update;
    for (const name of path) value = isRecord(value) ? value[name] : undefined;
    if (typeof value !== "string") continue;
    // Readers join chunks of one kind, whichever messages the agent says they belong to.
    const { sessionUpdate, toolCallId } = update;
    const key = `${sessionUpdate} ${toolCallId} ${sessionId}`;
    return { key, path, text: value };
  }
  return undefined;
}
