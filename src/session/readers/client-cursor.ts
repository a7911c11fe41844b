import { type Cursor, cursorAfter, type EventCursor } from "../../protocol/cursor.ts";
import { gatewayNotice } from "../../protocol/extensions.ts";
import type { ClientPort, FrameMark, Page, PageMarks } from "../../protocol/rpc.ts";
import type { LogEvent } from "../core/events/event.ts";
import type { Attachment } from "../core/read/replay.ts";
import { HistoryGone } from "../log/history-gone.ts";
import {
  isAnswer,
  type LogReader,
  markFrames,
  type ReadSpan,
  renderFrames,
  startOf,
  withinSpan,
} from "./delivery.ts";
import type { Presence } from "./presence.ts";

/** Where the client is, as far as the session knows. A session that does not know asks the connection. */
type ReadState = { kind: "unlocated" } | Located;

/** The client has room for pages, or rests until its connection says that it is ready. */
type Located = {
  kind: "reading" | "resting";
  /** The span of the log that the client reads now. */
  span: ReadSpan;
  /** The last event read. Events that render to nothing move only this, not the client's cursor. */
  position: number;
  /** The client's cursor. */
  cursor: Cursor;
  /** The client wants a mark for each frame. */
  readonly isMarked: boolean;
  /** The client waits for responses while it rests. */
  awaitsAnswers: boolean;
};

/** Whether the cursor delivers pages now. A superseded cursor finishes the page that is under way, and no other. */
type Activity =
  | { kind: "idle" }
  | { kind: "pumping"; isWoken: boolean }
  | { kind: "superseded"; ended?: () => void };

/**
 * One client's cursor over the log. The receiver owns the position; this cursor keeps a copy, and asks for it again
 * after it has lost it. A client that attaches again first reads the rest of its earlier attachment, up to the request
 * by which it attached again. The cursor alone determines which events are still due.
 */
export class ClientCursor {
  readonly connection: string;
  presence: Presence;
  readonly attachment: Attachment;
  /** Where the client began to read when it first attached: a client that has got nothing yet is still there. */
  readonly first: EventCursor;
  #state: ReadState = { kind: "unlocated" };
  #activity: Activity = { kind: "idle" };
  /** The last event searched for responses while the client rested. */
  #searched = 0;
  /** The end of the page that an earlier cursor of this client has under way. */
  #predecessor: Promise<void> | undefined;

  constructor(
    connection: string,
    attachment: Attachment,
    presence: Presence,
    first: EventCursor = startOf(attachment),
  ) {
    this.connection = connection;
    this.attachment = attachment;
    this.presence = presence;
    this.first = first;
  }

  /** The cursor of a new attachment of the same client. It starts when this one has stopped. */
  succeed(attachment: Attachment, presence: Presence): ClientCursor {
    const next = new ClientCursor(this.connection, attachment, presence, this.first);
    next.#searched = this.#searched;
    if (this.#activity.kind === "idle") this.#activity = { kind: "superseded" };
    else
      next.#predecessor = new Promise((ended) => {
        this.#activity = { kind: "superseded", ended };
      });
    return next;
  }

  /** The last event read, if that is known. */
  get position(): number | undefined {
    return this.#state.kind === "unlocated" ? undefined : this.#state.position;
  }

  /** The client has room again, or continues from another place: its connection says from where. */
  wake(): void {
    if (this.#activity.kind === "pumping") this.#activity.isWoken = true;
    else this.#state = { kind: "unlocated" };
  }

  /**
   * Delivers pages up to the end of the log, one at a time: a slow client delays nobody, and its backlog is the log.
   * Resolves to false when the client is gone.
   */
  async pump(sessionId: string, port: ClientPort, log: LogReader): Promise<boolean> {
    if (this.#activity.kind !== "idle") return true;
    this.#activity = { kind: "pumping", isWoken: false };
    try {
      await this.#predecessor;
      this.#predecessor = undefined;
      do {
        const located = await this.#locate(sessionId, port);
        if (!located) return false;
        const isPresent = await (located.kind === "resting"
          ? this.#searchAnswers(located, sessionId, port, log)
          : this.#read(located, sessionId, port, log));
        if (!isPresent) return false;
      } while (this.#isWoken);
      return true;
    } catch (error) {
      // The connection's object may have been reset, and may have taken the page or not.
      this.#state = { kind: "unlocated" };
      throw error;
    } finally {
      this.#stop();
    }
  }

  #stop(): void {
    if (this.#activity.kind === "superseded") this.#activity.ended?.();
    else this.#activity = { kind: "idle" };
  }

  get #isWoken(): boolean {
    return this.#activity.kind === "pumping" && this.#activity.isWoken;
  }

  get #mayContinue(): boolean {
    return this.#activity.kind === "pumping" && !this.#activity.isWoken;
  }

  /** Asks the connection where the client is, unless that is known. Undefined when the client is gone. */
  async #locate(sessionId: string, port: ClientPort): Promise<Located | undefined> {
    const isKnown = this.#state.kind !== "unlocated" && !this.#isWoken;
    if (isKnown) return this.#state as Located;
    this.#state = { kind: "unlocated" };
    if (this.#activity.kind === "pumping") this.#activity.isWoken = false;
    const position = await port.startReading(sessionId);
    if (position === null) return undefined;
    const cursor = position.cursor ?? cursorAfter(this.first);
    const { attachment, seq } = cursor;
    this.#searched = Math.max(this.#searched, attachment, seq);
    const own = this.attachment;
    const isEarlier = attachment < own.seq;
    const span = isEarlier ? { seq: attachment, merge: true, offers: [], until: own.seq } : own;
    this.#state = {
      kind: position.rests ? "resting" : "reading",
      span,
      position: attachment > own.seq ? own.start : seq,
      cursor,
      isMarked: position.marks !== undefined,
      awaitsAnswers: position.marks?.awaitsAnswers ?? false,
    };
    return this.#state;
  }

  async #read(at: Located, sessionId: string, port: ClientPort, log: LogReader): Promise<boolean> {
    while (this.#mayContinue) {
      if (at.span.until !== undefined && at.position >= at.span.until) {
        at.span = this.attachment;
        at.position = this.attachment.start;
      }
      const gone = await reach(log, at.position);
      const events = gone ? [] : withinSpan(log.after(at.position), at.span);
      const last = gone?.last ?? events.at(-1)?.seq;
      if (last === undefined) return true;
      const page = gone
        ? this.#goneNotice(at, gone, sessionId)
        : this.#page(at, events, last, sessionId, log);
      const result = page.frames.length === 0 ? "nothing" : await port.deliver(sessionId, page);
      if (result === "gone") return false;
      if (result === "enough" || result === "later") at.kind = "resting";
      if (result === "later") return true;
      at.position = last;
      if (result !== "nothing") at.cursor = cursorAfter(page.end);
      if (result === "enough") return true;
    }
    return true;
  }

  /** Tells the client that part of its history is gone. Reading continues after that part. */
  #goneNotice(at: Located, { message, last }: HistoryGone, sessionId: string): Page {
    const frames = [gatewayNotice(sessionId, "history.gone", message)];
    const end = { attachment: at.span.seq, seq: last };
    if (!at.isMarked) return { end, frames };
    return { end, frames, marks: this.#marks(at, [{ seq: last, part: null, isAnswer: false }]) };
  }

  /**
   * Searches the log for the responses that a resting client waits for: they do not belong on the stream that the
   * client does not read.
   */
  async #searchAnswers(at: Located, sessionId: string, port: ClientPort, log: LogReader): Promise<boolean> {
    while (at.awaitsAnswers && this.#mayContinue) {
      const reaching = log.reach(this.#searched);
      if (reaching) await reaching;
      const events = log.after(this.#searched);
      const last = events.at(-1);
      if (!last) return true;
      const responses = events.filter(isAnswer);
      const rendered = renderFrames(responses, at.position, at.span, this.#recipient(sessionId), log);
      const answers = markFrames(rendered, responses).filter(({ mark }) => mark.isAnswer);
      if (answers.length > 0) {
        const result = await port.deliver(sessionId, {
          end: { attachment: this.attachment.seq, seq: last.seq },
          frames: answers.map(({ text }) => text),
          marks: { kind: "answers", frames: answers.map(({ mark }) => mark) },
        });
        if (result === "gone") return false;
        at.awaitsAnswers = result === "more";
      }
      this.#searched = last.seq;
    }
    return true;
  }

  #page(at: Located, events: readonly LogEvent[], last: number, sessionId: string, log: LogReader): Page {
    const end = { attachment: at.span.seq, seq: last };
    const rendered = renderFrames(events, at.position, at.span, this.#recipient(sessionId), log);
    if (!at.isMarked) return { end, frames: rendered.texts };
    const { seq, part } = this.#from(at);
    // Of the event after its cursor, the client may have the first frames.
    const frames = markFrames(rendered, events).filter(({ nth, mark }) => mark.seq > seq + 1 || nth >= part);
    const marks = frames.map(({ mark }) => mark);
    return { end, frames: frames.map(({ text }) => text), marks: this.#marks(at, marks) };
  }

  #marks(at: Located, frames: FrameMark[]): PageMarks {
    return { kind: "in-turn", after: at.cursor, from: this.#from(at), frames };
  }

  /** Where the next page begins: at the client's cursor, or where its present attachment does. */
  #from({ cursor, span }: Located): Cursor {
    return cursor.attachment === span.seq ? cursor : cursorAfter(startOf(this.attachment));
  }

  #recipient(sessionId: string) {
    return { sessionId, connection: this.connection, presence: this.presence };
  }
}

async function reach(log: LogReader, seq: number): Promise<HistoryGone | undefined> {
  try {
    await log.reach(seq);
  } catch (error) {
    if (error instanceof HistoryGone) return error;
    throw error;
  }
}
