import { LIMITS } from "../protocol/limits.ts";
import { isFrame, type LogEvent } from "./event.ts";
import { forClient } from "./render.ts";
import { merged, type Reading } from "./replay.ts";

/** What a session needs of a connection: the receiving end of a cursor. */
export type ClientPort = {
  /** The last sequence number delivered since the given attachment, if any; null when the client is gone. */
  position(sessionId: string, attach: number): Promise<{ upTo: number | null } | null>;
  deliver(sessionId: string, page: Page): Promise<boolean>;
};

/** Consecutive messages for one client. `attach` tells one attachment of the same connection from another. */
export type Page = { attach: number; upTo: number; frames: string[] };

/** One client's cursor. The receiver owns the position; ours is a copy, asked for again when we lost it. */
export class ClientCursor {
  readonly connection: string;
  readonly #reading: Reading;
  #position: number | undefined;
  #busy = false;
  #welcome = false;

  constructor(connection: string, reading: Reading) {
    this.connection = connection;
    this.#reading = reading;
  }

  /** Where the cursor stands, if that is known. */
  get position(): number | undefined {
    return this.#position;
  }

  /**
   * Reads on to the end of the log, one page in flight at a time: a slow client holds up nobody, and its
   * backlog is the log. Resolves to false when the client is gone.
   */
  async pump(sessionId: string, port: ClientPort, log: Reader): Promise<boolean> {
    if (this.#busy) return true;
    this.#busy = true;
    const { attach, start } = this.#reading;
    try {
      if (this.#position === undefined) {
        const position = await port.position(sessionId, attach);
        if (position === null) return false;
        this.#position = position.upTo ?? start;
      }
      for (;;) {
        const reaching = log.reach(this.#position);
        if (reaching) await reaching;
        const events = log.after(this.#position, LIMITS.deliverChars);
        const last = events.at(-1);
        if (!last) return true;
        const frames = this.#render(events, sessionId, log);
        if (frames.length > 0 && !(await port.deliver(sessionId, { attach, upTo: last.seq, frames })))
          return false;
        this.#position = last.seq;
      }
    } catch (error) {
      // The connection's object may have been reset in between: what it has is for it to say.
      this.#position = undefined;
      throw error;
    } finally {
      this.#busy = false;
    }
  }

  #render(events: readonly LogEvent[], sessionId: string, log: Reader): string[] {
    const { attach, merge } = this.#reading;
    const viewer = { connection: this.connection, replayUntil: attach };
    const replaying = merge && (this.#position ?? 0) < attach;
    const frames = replaying
      ? merged(events, sessionId, viewer)
      : events.flatMap((event) => forClient(event, sessionId, viewer));
    return this.#welcomed(events) ? [...frames, ...this.#offers(sessionId, log)] : frames;
  }

  /** Whether the answer to the session/load or session/resume is among these events. */
  #welcomed(events: readonly LogEvent[]): boolean {
    const { attach } = this.#reading;
    if (attach === 0 || this.#welcome) return false;
    this.#welcome = events.some(
      (event) => isFrame(event) && event.route.to === this.connection && event.route.re === attach,
    );
    return this.#welcome;
  }

  /** What the agent still asks is offered to the newcomer. */
  #offers(sessionId: string, log: Reader): string[] {
    const viewer = { connection: this.connection, replayUntil: 0 };
    return log.openRequests(this.#reading.attach).flatMap((event) => forClient(event, sessionId, viewer));
  }
}

export type Reader = {
  /** Brings the event after `seq` within reach, if it is in the archive. */
  reach(seq: number): Promise<void> | undefined;
  after(seq: number, maxChars: number): LogEvent[];
  /** Requests of the agent up to `seq` that clients may still answer. */
  openRequests(seq: number): LogEvent[];
};
