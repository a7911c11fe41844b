import { LIMITS } from "../protocol/limits.ts";
import type { LogEvent } from "./event.ts";
import { forClient } from "./render.ts";

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
  readonly attach: number;
  readonly start: number;
  #position: number | undefined;
  #busy = false;

  /** `attach` is the place of the request that let the client in, `start` where its reading begins. */
  constructor(connection: string, attach: number, start: number) {
    this.connection = connection;
    this.attach = attach;
    this.start = start;
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
    try {
      if (this.#position === undefined) {
        const position = await port.position(sessionId, this.attach);
        if (position === null) return false;
        this.#position = position.upTo ?? this.start;
      }
      for (;;) {
        const events = log.after(this.#position, LIMITS.deliverChars);
        const last = events.at(-1);
        if (!last) return true;
        const frames = events.flatMap((event) => this.#render(event, sessionId, log));
        if (
          frames.length > 0 &&
          !(await port.deliver(sessionId, { attach: this.attach, upTo: last.seq, frames }))
        )
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

  #render(event: LogEvent, sessionId: string, log: Reader): string[] {
    const viewer = { connection: this.connection, replayUntil: this.attach };
    const frames = forClient(event, sessionId, viewer);
    // The answer to session/load or session/resume: what the agent still asks is offered to the newcomer.
    const attached =
      event.kind === "acp.frame" &&
      "route" in event &&
      event.route.to === this.connection &&
      event.route.re === this.attach;
    if (!attached || this.attach === 0) return frames;
    return [
      ...frames,
      ...log.openRequests(this.attach).flatMap((e) => forClient(e, sessionId, { ...viewer, replayUntil: 0 })),
    ];
  }
}

export type Reader = {
  after(seq: number, maxChars: number): LogEvent[];
  /** Requests of the agent up to `seq` that clients may still answer. */
  openRequests(seq: number): LogEvent[];
};
