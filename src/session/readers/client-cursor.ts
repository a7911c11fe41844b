import { type Cursor, cursorAfter, type EventCursor } from "../../protocol/cursor.ts";
import { gatewayNotice } from "../../protocol/extensions.ts";
import type { ClientPort, DeliveryResult, FrameMark, Page, PageMarks } from "../../protocol/rpc.ts";
import { RPC_VERSION, readable } from "../../protocol/versions.ts";
import { charsOf, type LogEvent } from "../core/events/event.ts";
import type { Attachment } from "../core/read/replay.ts";
import { HistoryGone } from "../log/history-gone.ts";
import {
  isAnswer,
  type LogReader,
  markFrames,
  offeredWith,
  type ReadSpan,
  renderFrames,
  startOf,
  withinSpan,
  withReleased,
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
  /** Gives back the room of a large page, which the client has got and may not have read. */
  #release: (() => void) | undefined;
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

  /** Takes over from the cursor of the client's earlier attachment. This one starts when the earlier one has stopped. */
  supersede(earlier: ClientCursor): void {
    this.#searched = earlier.#searched;
    this.#release = earlier.#release;
    if (earlier.#activity.kind === "idle") earlier.#activity = { kind: "superseded" };
    else
      this.#predecessor = new Promise((ended) => {
        earlier.#activity = { kind: "superseded", ended };
      });
  }

  /** Ends the reading of a client that leaves. Resolves when no page is under way any more. */
  stop(): Promise<void> {
    this.#release?.();
    if (this.#activity.kind !== "pumping") {
      this.#activity = { kind: "superseded" };
      return Promise.resolve();
    }
    return new Promise((ended) => {
      this.#activity = { kind: "superseded", ended };
    });
  }

  /** The last event read, if that is known. */
  get position(): number | undefined {
    return this.#state.kind === "unlocated" ? undefined : this.#state.position;
  }

  /** The client has room again, or continues from another place: its connection says from where. */
  wake(): void {
    this.#release?.();
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
      log.room.passOn();
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
    const cursor = readable(position, "The position of a client").cursor ?? cursorAfter(this.first);
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
    const { room } = log;
    // After its turn has come, or did not come for long, the page is read again: nothing is held while it waits.
    for (let isForced = false; this.#mayContinue; ) {
      if (at.span.until !== undefined && at.position >= at.span.until) {
        at.span = this.attachment;
        at.position = this.attachment.start;
      }
      const read = await this.#readNext(at, sessionId, log, isForced);
      if (typeof read === "number") {
        isForced = !(await room.turn(read));
        continue;
      }
      isForced = false;
      if (read === "nothing") return true;
      let result: DeliveryResult | "nothing" = "gone";
      try {
        result = await this.#deliver(read, at, sessionId, port);
      } finally {
        // A client that has had enough says when it has read the page: it wakes the cursor.
        if (result === "enough" && !this.#isWoken) this.#keepRoom(read.chars, log);
        else room.free(read.chars);
      }
      if (result === "gone") return false;
      if (result === "enough" || result === "later") at.kind = "resting";
      if (result === "enough" || result === "later") return true;
    }
    return true;
  }

  /** Small pages need not wait for each other. */
  #keepRoom(chars: number, { room, pageChars }: LogReader): void {
    if (chars > pageChars) this.#release = room.keep(chars);
    else room.free(chars);
  }

  /**
   * Reads the next page if there is room for it, and takes the room; otherwise resolves to the room that it needs. Only
   * the page itself stays in memory.
   */
  async #readNext(
    at: Located,
    sessionId: string,
    log: LogReader,
    isForced: boolean,
  ): Promise<NextPage | "nothing" | number> {
    const pending = log.after(at.position);
    // Without an await in between, a page that finds no room is garbage before the next reader reads.
    const read = pending instanceof Promise ? await pending.catch(goneHistory) : pending;
    const gone = read instanceof HistoryGone ? read : undefined;
    const page = read instanceof HistoryGone ? [] : withReleased(withinSpan(read, at.span), at.span, log);
    const events = page instanceof Promise ? await page : page;
    const last = gone?.last ?? events.at(-1)?.seq;
    if (last === undefined) return "nothing";
    const offered = offeredWith(events, at.span, this.connection, log);
    const chars = [...events, ...offered].reduce((sum, event) => sum + charsOf(event), 0);
    if (isForced) log.room.force(chars);
    else if (!log.room.take(chars)) return chars;
    try {
      const page = gone
        ? this.#goneNotice(at, gone, sessionId)
        : this.#page(at, events, last, sessionId, log);
      return { page, last, chars };
    } catch (error) {
      log.room.free(chars);
      throw error;
    }
  }

  async #deliver(
    { page, last }: NextPage,
    at: Located,
    sessionId: string,
    port: ClientPort,
  ): Promise<DeliveryResult | "nothing"> {
    const result = page.frames.length === 0 ? "nothing" : await port.deliver(sessionId, page);
    if (result === "gone" || result === "later") return result;
    at.position = last;
    if (result !== "nothing") at.cursor = cursorAfter(page.end);
    return result;
  }

  /** Tells the client that part of its history is gone. Reading continues after that part. */
  #goneNotice(at: Located, { message, last }: HistoryGone, sessionId: string): Page {
    const frames = [gatewayNotice(sessionId, "history.gone", message)];
    const end = { attachment: at.span.seq, seq: last };
    if (!at.isMarked) return { v: RPC_VERSION, end, frames };
    const marks = this.#marks(at, [{ seq: last, part: null, isAnswer: false }]);
    return { v: RPC_VERSION, end, frames, marks };
  }

  /**
   * Searches the log for the responses that a resting client waits for: they do not belong on the stream that the
   * client does not read.
   */
  async #searchAnswers(at: Located, sessionId: string, port: ClientPort, log: LogReader): Promise<boolean> {
    while (at.awaitsAnswers && this.#mayContinue) {
      const events = await log.after(this.#searched);
      const last = events.at(-1);
      if (!last) return true;
      const responses = events.filter(isAnswer);
      const rendered = renderFrames(responses, at.position, at.span, this.#recipient(sessionId), log);
      const answers = markFrames(rendered, responses).filter(({ mark }) => mark.isAnswer);
      if (answers.length > 0) {
        const result = await port.deliver(sessionId, {
          v: RPC_VERSION,
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
    if (!at.isMarked) return { v: RPC_VERSION, end, frames: rendered.texts };
    const { seq, part } = this.#from(at);
    // Of the event after its cursor, the client may have the first frames.
    const frames = markFrames(rendered, events).filter(({ nth, mark }) => mark.seq > seq + 1 || nth >= part);
    const texts = frames.map(({ text }) => text);
    const marks = this.#marks(
      at,
      frames.map(({ mark }) => mark),
    );
    return { v: RPC_VERSION, end, frames: texts, marks };
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

/** The next page, its last event, and the size of its events. */
type NextPage = { readonly page: Page; readonly last: number; readonly chars: number };

function goneHistory(error: unknown): HistoryGone {
  if (error instanceof HistoryGone) return error;
  throw error;
}
