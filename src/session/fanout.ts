import { notification } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import { HistoryGone } from "./archive.ts";
import { isFrame, type LogEvent } from "./event.ts";
import type { Presence } from "./presence.ts";
import { forClient } from "./render.ts";
import { letsIn, merged, type Reading } from "./replay.ts";

/** What a session needs of a connection: the receiving end of a cursor. */
export type ClientPort = {
  /** How far the client has been served since the given attachment; null when it is gone. */
  position(sessionId: string, attach: number): Promise<Position | null>;
  deliver(sessionId: string, page: Page): Promise<Taken>;
};

/** A place in what a client reads: after an event, and after that many of the next one's frames. */
export type Place = { upTo: number; skip: number };

/**
 * `place` is null when nothing has been delivered yet. Who is `numbered` gets the place of each frame, and
 * rests when it cannot take any: then nothing is sent before it says so, but `answers` if it waits for some.
 */
export type Position = {
  place: Place | null;
  numbered?: { rests: boolean; answers: boolean };
};

/** `enough`: that was taken, and no more before the client says so. `later`: not even that. */
export type Taken = "more" | "enough" | "later" | "gone";

/** Consecutive messages for one client. `attach` tells one attachment of the same connection from another. */
export type Page = { attach: number; upTo: number; frames: string[]; numbers?: Numbers };

/** The frames of a page by their places. `from` is where it continues; null when it is answers out of turn. */
export type Numbers = { from: Place | null; marks: Mark[] };

/** The event of a frame; its place among that event's frames if more follow; whether it is a response. */
export type Mark = { seq: number; part: number | null; answer: boolean };

/** One client's cursor. The receiver owns the position; ours is a copy, asked for again when we lost it. */
export class ClientCursor {
  readonly connection: string;
  presence: Presence;
  readonly #reading: Reading;
  #position: number | undefined;
  #busy = false;
  #woken = false;
  /** For a client that is numbered: where it said it was, and how far its answers have been looked for. */
  #numbered: { from: Place; rests: boolean; answers: boolean } | undefined;
  #skimmed: number;
  /** Another reading of the same client takes over after this event. */
  #until = Number.POSITIVE_INFINITY;
  #before: ClientCursor | undefined;
  #ended: (() => void) | undefined;

  /** `before` is the client's reading so far: it goes on up to the request that asked for this one. */
  constructor(connection: string, reading: Reading, presence: Presence, before?: ClientCursor) {
    this.connection = connection;
    this.presence = presence;
    this.#reading = reading;
    this.#skimmed = before?.handOver(reading.attach) ?? reading.attach;
    this.#before = before?.isDone ? undefined : before;
  }

  /** Reads no further than `seq`. Returns how far this client has its answers, if it is a resting one. */
  handOver(seq: number): number | undefined {
    // A client that rests may do so for ever: what is left of this reading is of no use to it, except answers.
    const until = this.#numbered ? -1 : seq;
    this.#until = Math.min(this.#until, until);
    return this.#numbered && Math.max(this.#skimmed, this.#position ?? 0);
  }

  get isDone(): boolean {
    return this.#until < 0 || (this.#position ?? -1) >= this.#until;
  }

  /** Ends what is left of a reading that was handed over: each client gets what it asked for in order. */
  async #finish(sessionId: string, port: ClientPort, log: Reader): Promise<boolean> {
    while (!this.isDone) {
      if (this.#busy) await new Promise<void>((resolve) => (this.#ended = resolve));
      else if (!(await this.pump(sessionId, port, log))) return false;
    }
    return true;
  }

  get offers(): readonly number[] {
    return this.#reading.offers;
  }

  /** Where the cursor stands, if that is known. */
  get position(): number | undefined {
    return this.#position;
  }

  /** The client has room again, or wants to go on from somewhere else: it will say from where. */
  wake(): void {
    this.#woken = true;
  }

  /**
   * Reads on to the end of the log, one page in flight at a time: a slow client holds up nobody, and its
   * backlog is the log. Resolves to false when the client is gone.
   */
  async pump(sessionId: string, port: ClientPort, log: Reader): Promise<boolean> {
    if (this.#busy) return true;
    this.#busy = true;
    try {
      if (this.#before && !(await this.#before.#finish(sessionId, port, log))) return false;
      this.#before = undefined;
      do {
        if (this.#woken) this.#position = undefined;
        this.#woken = false;
        if (this.#position === undefined && !(await this.#locate(sessionId, port))) return false;
        const present = await (this.#numbered?.rests
          ? this.#skim(sessionId, port, log)
          : this.#read(sessionId, port, log));
        if (!present) return false;
      } while (this.#woken);
      return true;
    } catch (error) {
      // The connection's object may have been reset in between: what it has is for it to say.
      this.#position = undefined;
      throw error;
    } finally {
      this.#busy = false;
      this.#ended?.();
    }
  }

  async #locate(sessionId: string, port: ClientPort): Promise<boolean> {
    const { attach, start } = this.#reading;
    const position = await port.position(sessionId, attach);
    if (position === null) return false;
    const place = position.place ?? { upTo: start, skip: 0 };
    this.#numbered = position.numbered && { from: place, ...position.numbered };
    this.#position = place.upTo;
    return true;
  }

  async #read(sessionId: string, port: ClientPort, log: Reader): Promise<boolean> {
    while (this.#position !== undefined && !this.#woken && !this.isDone) {
      const gone = await this.#reach(log, this.#position);
      const events = gone ? [] : this.#upToHandOver(log.after(this.#position, LIMITS.deliverChars));
      const last = gone ? { seq: gone.last } : events.at(-1);
      if (!last) return true;
      const page = gone ? this.#goneNotice(gone, sessionId) : this.#page(events, last.seq, sessionId, log);
      const taken = page.frames.length === 0 ? "nothing" : await port.deliver(sessionId, page);
      if (taken === "gone") return false;
      const numbered = this.#numbered;
      if (numbered && (taken === "enough" || taken === "later")) numbered.rests = true;
      if (taken === "later") return true;
      this.#position = last.seq;
      if (numbered && taken !== "nothing") numbered.from = { upTo: last.seq, skip: 0 };
      if (taken === "enough") return true;
    }
    return true;
  }

  async #reach(log: Reader, seq: number): Promise<HistoryGone | undefined> {
    try {
      await log.reach(seq);
    } catch (error) {
      if (error instanceof HistoryGone) return error;
      throw error;
    }
  }

  /** A client that asks for what no longer exists is told so, and gets the rest. */
  #goneNotice({ message, last }: HistoryGone, sessionId: string): Page {
    const meta = { "acp-edge/event": "history.gone", "acp-edge/message": message };
    const update = { sessionUpdate: "session_info_update", _meta: meta };
    const page = {
      attach: this.#reading.attach,
      upTo: last,
      frames: [notification("session/update", { sessionId, update })],
    };
    if (!this.#numbered) return page;
    return {
      ...page,
      numbers: { from: this.#numbered.from, marks: [{ seq: last, part: null, answer: false }] },
    };
  }

  #upToHandOver(events: LogEvent[]): LogEvent[] {
    const last = events.at(-1);
    return last && last.seq > this.#until ? events.filter(({ seq }) => seq <= this.#until) : events;
  }

  /** Looks for answers a resting client waits for: they do not belong on the stream that it does not read. */
  async #skim(sessionId: string, port: ClientPort, log: Reader): Promise<boolean> {
    const { attach } = this.#reading;
    while (this.#numbered?.answers && !this.#woken && !this.isDone) {
      const reaching = log.reach(this.#skimmed);
      if (reaching) await reaching;
      const events = log.after(this.#skimmed, LIMITS.deliverChars);
      const last = events.at(-1);
      if (!last) return true;
      const answers = this.#rendered(events.filter(isAnswer), sessionId, log).filter(
        ({ mark }) => mark.answer,
      );
      if (answers.length > 0) {
        const numbers = { from: null, marks: answers.map(({ mark }) => mark) };
        const frames = answers.map(({ text }) => text);
        const taken = await port.deliver(sessionId, { attach, upTo: last.seq, frames, numbers });
        if (taken === "gone") return false;
        this.#numbered.answers = taken === "more";
      }
      this.#skimmed = last.seq;
    }
    return true;
  }

  #page(events: readonly LogEvent[], upTo: number, sessionId: string, log: Reader): Page {
    const { attach } = this.#reading;
    if (!this.#numbered) return { attach, upTo, frames: this.#render(events, sessionId, log) };
    const { from } = this.#numbered;
    const rendered = this.#rendered(events, sessionId, log).filter(({ nth, mark }) => {
      return mark.seq > from.upTo + 1 || nth >= from.skip;
    });
    const numbers = { from, marks: rendered.map(({ mark }) => mark) };
    return { attach, upTo, frames: rendered.map(({ text }) => text), numbers };
  }

  /** Frames with their places. A joined chunk has the place of its last event. */
  #rendered(events: readonly LogEvent[], sessionId: string, log: Reader): Numbered[] {
    const answers = new Set(events.filter(isAnswer).map(({ seq }) => seq));
    const seqs: number[] = [];
    const frames = this.#render(events, sessionId, log, seqs);
    let nth = 0;
    return frames.map((text, i) => {
      const seq = seqs[i] as number;
      nth = seqs[i - 1] === seq ? nth + 1 : 0;
      const part = seqs[i + 1] === seq ? nth : null;
      return { text, nth, mark: { seq, part, answer: nth === 0 && answers.has(seq) } };
    });
  }

  /** The frames a client gets for these events; `seqs`, if given, gets the event of each. */
  #render(events: readonly LogEvent[], sessionId: string, log: Reader, seqs?: number[]): string[] {
    const { attach, merge } = this.#reading;
    const { connection, presence } = this;
    const viewer = { connection, replayUntil: attach, answers: presence.answers };
    const replaying = merge && (this.#position ?? 0) < attach;
    const render = (part: readonly LogEvent[]) =>
      replaying
        ? merged(part, sessionId, viewer, seqs)
        : part.flatMap((event) => placed(forClient(event, sessionId, viewer), event.seq, seqs));
    const entry = events.findIndex((event) => letsIn(event, connection, attach)) + 1;
    if (entry === 0) return render(events);
    const { seq } = events[entry - 1] as LogEvent;
    return [
      ...render(events.slice(0, entry)),
      ...placed(this.#offers(sessionId, log), seq, seqs),
      ...render(events.slice(entry)),
    ];
  }

  /**
   * What the agent asked and nobody had answered when the client came. If it has been answered since, the
   * client reads that further on.
   */
  #offers(sessionId: string, log: Reader): string[] {
    const viewer = { connection: this.connection, replayUntil: 0, answers: this.presence.answers };
    return this.#reading.offers.flatMap((seq) => {
      const event = log.eventAt(seq);
      return event ? forClient(event, sessionId, viewer) : [];
    });
  }
}

type Numbered = { text: string; nth: number; mark: Mark };

function placed(frames: string[], seq: number, seqs: number[] | undefined): string[] {
  if (seqs) for (const _ of frames) seqs.push(seq);
  return frames;
}

function isAnswer(event: LogEvent): boolean {
  return isFrame(event) && event.direction === "in" && event.frame.kind === "response";
}

export type Reader = {
  /** Brings the event after `seq` within reach, if it is in the archive. */
  reach(seq: number): Promise<void> | undefined;
  after(seq: number, maxChars: number): LogEvent[];
  eventAt(seq: number): LogEvent | undefined;
};
