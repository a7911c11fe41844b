import { notification } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { ClientPort, LogPlace, Mark, Numbers, Page, Place, Position } from "../../protocol/rpc.ts";
import { isFrame, type LogEvent } from "../core/events/event.ts";
import { redacted } from "../core/read/redaction/redaction.ts";
import { forClient } from "../core/read/render.ts";
import { letsIn, merged, type Reading } from "../core/read/replay.ts";
import { HistoryGone } from "../log/history-archive.ts";
import type { Presence } from "./presence.ts";

/** Where a reading begins. */
export type Start = Pick<Reading, "attach" | "start">;

/**
 * One client's cursor. The receiver owns the position; ours is a copy, asked for again when we lost it. A client
 * that attaches again first reads on, as of its earlier attachment, up to the request by which it did: so it gets
 * what it was owed, and nothing but its position is needed to know that.
 */
export class ClientCursor {
  readonly connection: string;
  presence: Presence;
  /** Where the connection's first reading began: a client that has got nothing yet is still there. */
  readonly first: Start;
  readonly reading: Reading;
  /** What it reads now: the rest of an earlier reading, or its own. */
  #stretch: Stretch;
  /** How far we have read, and where the client is: what it does not get to see moves only the former. */
  #position: number | undefined;
  #at: LogPlace;
  #busy = false;
  #woken = false;
  #rests = false;
  #numbered: Position["numbered"];
  /** How far the answers have been looked for of a client that rests. */
  #skimmed = 0;
  /** Another reading of the same client has taken over, and waits for the page that is under way. */
  #over = false;
  #ended: (() => void) | undefined;
  #predecessor: Promise<void> | undefined;

  constructor(connection: string, reading: Reading, presence: Presence, first: Start = reading) {
    this.connection = connection;
    this.presence = presence;
    this.first = first;
    this.reading = reading;
    this.#stretch = reading;
    this.#at = { attach: reading.attach, place: { upTo: reading.start, skip: 0 } };
  }

  /** The same client reads anew: one goes on when the other has stopped. */
  succeeded(reading: Reading, presence: Presence): ClientCursor {
    const next = new ClientCursor(this.connection, reading, presence, this.first);
    this.#over = true;
    if (this.#busy)
      next.#predecessor = new Promise((resolve) => {
        this.#ended = resolve;
      });
    next.#skimmed = this.#skimmed;
    return next;
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
      await this.#predecessor;
      this.#predecessor = undefined;
      do {
        if (this.#woken) this.#position = undefined;
        this.#woken = false;
        if (this.#position === undefined && !(await this.#locate(sessionId, port))) return false;
        const present = await (this.#rests
          ? this.#skim(sessionId, port, log)
          : this.#read(sessionId, port, log));
        if (!present) return false;
      } while (this.#woken && !this.#over);
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
    const { attach } = this.reading;
    const position = await port.position(sessionId);
    if (position === null) return false;
    const { first } = this;
    const at = position.at ?? { attach: first.attach, place: { upTo: first.start, skip: 0 } };
    this.#rests = position.rests;
    this.#numbered = position.numbered;
    this.#at = at;
    this.#skimmed = Math.max(this.#skimmed, at.attach, at.place.upTo);
    if (at.attach < attach) {
      this.#stretch = { attach: at.attach, merge: true, offers: [], until: attach };
      this.#position = at.place.upTo;
    } else {
      this.#begin();
      if (at.attach === attach) this.#position = at.place.upTo;
    }
    return true;
  }

  #begin(): void {
    this.#stretch = this.reading;
    this.#position = this.reading.start;
  }

  async #read(sessionId: string, port: ClientPort, log: Reader): Promise<boolean> {
    while (this.#position !== undefined && !this.#woken && !this.#over) {
      const { until } = this.#stretch;
      if (until !== undefined && this.#position >= until) this.#begin();
      const gone = await this.#reach(log, this.#position);
      const events = gone ? [] : this.#ofStretch(log.after(this.#position, LIMITS.deliverChars));
      const last = gone ? { seq: gone.last } : events.at(-1);
      if (!last) return true;
      const page = gone ? this.#goneNotice(gone, sessionId) : this.#page(events, last.seq, sessionId, log);
      const taken = page.frames.length === 0 ? "nothing" : await port.deliver(sessionId, page);
      if (taken === "gone") return false;
      if (taken === "enough" || taken === "later") this.#rests = true;
      if (taken === "later") return true;
      this.#position = last.seq;
      if (taken !== "nothing") this.#at = { attach: page.attach, place: { upTo: last.seq, skip: 0 } };
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
      attach: this.#stretch.attach,
      upTo: last,
      frames: [notification("session/update", { sessionId, update })],
    };
    if (!this.#numbered) return page;
    return { ...page, numbers: this.#numbers([{ seq: last, part: null, answer: false }]) };
  }

  #numbers(marks: Mark[]): Numbers {
    const { attach, place } = this.#at;
    const from = attach === this.#stretch.attach ? place : { upTo: this.reading.start, skip: 0 };
    return { after: this.#at, from, marks };
  }

  #ofStretch(events: LogEvent[]): LogEvent[] {
    const { until = Number.POSITIVE_INFINITY } = this.#stretch;
    const last = events.at(-1);
    return last && last.seq > until ? events.filter(({ seq }) => seq <= until) : events;
  }

  /** Looks for answers a resting client waits for: they do not belong on the stream that it does not read. */
  async #skim(sessionId: string, port: ClientPort, log: Reader): Promise<boolean> {
    const { attach } = this.reading;
    while (this.#numbered?.answers && !this.#woken && !this.#over) {
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
    const { attach } = this.#stretch;
    if (!this.#numbered) return { attach, upTo, frames: this.#render(events, sessionId, log) };
    const numbers = this.#numbers([]);
    const { upTo: had, skip } = numbers.from as Place;
    const rendered = this.#rendered(events, sessionId, log).filter(
      ({ nth, mark }) => mark.seq > had + 1 || nth >= skip,
    );
    numbers.marks = rendered.map(({ mark }) => mark);
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
  #render(logged: readonly LogEvent[], sessionId: string, log: Reader, seqs?: number[]): string[] {
    const { attach, merge, offers, as } = this.#stretch;
    const { connection, presence } = this;
    const { answers, hears = {} } = presence;
    const replayUntil = as === undefined ? attach : 0;
    const viewer = { connection, as, replayUntil, answers, hears };
    const events = presence.redacted ? logged.map(redacted) : logged;
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
      ...placed(this.#offers(offers, sessionId, log), seq, seqs),
      ...render(events.slice(entry)),
    ];
  }

  /**
   * What the agent asked and nobody had answered when the client came. If it has been answered since, the
   * client reads that further on.
   */
  #offers(offers: readonly number[], sessionId: string, log: Reader): string[] {
    const { answers, redacted: isRedacted } = this.presence;
    const viewer = { connection: this.connection, replayUntil: 0, answers, hears: {} };
    return offers.flatMap((seq) => {
      const event = log.eventAt(seq);
      return event ? forClient(isRedacted ? redacted(event) : event, sessionId, viewer) : [];
    });
  }
}

/** A reading, or what is left of an earlier one: that ends with the event `until`. */
type Stretch = Pick<Reading, "attach" | "merge" | "offers" | "as"> & { readonly until?: number };

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
