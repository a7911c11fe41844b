import { type AttachmentOf, readAttachment, socketKind, writeAttachment } from "../../durable/attachments.ts";
import { PullSockets } from "../../durable/pull-sockets.ts";
import { subjectTag } from "../../durable/socket-registration.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import type { Caller } from "../../protocol/caller.ts";
import { clipMessage } from "../../protocol/clipped-text.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { oneLine } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Refused, Result } from "../../protocol/refusal.ts";
import { personNames } from "../core/state/people.ts";
import type { HistoryArchive } from "../log/history-archive.ts";
import { HistoryGone } from "../log/history-gone.ts";
import type { Journal } from "../log/journal.ts";
import type { ConnectionNames } from "./connection-names.ts";
import { isByLink, placeRefusal } from "./places.ts";

type Watcher = AttachmentOf<"log-watcher">;

/** Text for a reader, and the last event that the text includes. */
type LogPage = { text: string; last: number };

/** The readers of the live log. A reader asks for a page and gets the page as soon as there are events. */
export class LogWatchers {
  readonly #ctx: DurableObjectState;
  readonly #sockets: PullSockets<"log-watcher">;
  readonly #journal: Journal;
  readonly #archive: HistoryArchive;
  readonly #names: ConnectionNames;
  readonly #limits: Limits;

  constructor(
    ctx: DurableObjectState,
    journal: Journal,
    archive: HistoryArchive,
    names: ConnectionNames,
    limits: Limits,
  ) {
    this.#ctx = ctx;
    this.#sockets = new PullSockets(ctx, "log-watcher", "session");
    this.#journal = journal;
    this.#archive = archive;
    this.#names = names;
    this.#limits = limits;
  }

  /** The refusal when there is no place for the caller. */
  refusal(caller: Caller): Refused | undefined {
    const open = this.#sockets.attachments();
    const bySubject = this.#ctx.getWebSockets(subjectTag(caller.subject));
    const taken = {
      all: open.length,
      byLink: open.filter(({ link }) => link === true).length,
      bySubject: bySubject.filter((ws) => socketKind(ws) === "log-watcher").length,
    };
    const { watchersPerSession, linkWatchersPerSession, watchersPerSubject } = this.#limits;
    const places = {
      all: watchersPerSession,
      byLink: linkWatchersPerSession,
      bySubject: watchersPerSubject,
    };
    const owner = this.#journal.state?.identity?.owner;
    return placeRefusal(caller, owner, taken, places, "live readers");
  }

  /** Accepts a reader of the events after `after`, if there is a place for the caller. */
  accept(caller: Caller, after: number, tags: readonly string[]): Result<WebSocket> {
    const refusal = this.refusal(caller);
    if (refusal) return refusal;
    const whose = { redact: caller.redacted, ...(isByLink(caller) && { link: true }) };
    return this.#sockets.accept({ kind: "log-watcher", seq: after, waiting: false, ...whose }, [
      ...tags,
      subjectTag(caller.subject),
    ]);
  }

  /** A watcher has room for a page. If the page cannot be read, the watcher is closed and connects again. */
  async next(ws: WebSocket): Promise<void> {
    try {
      await this.#sendNext(ws);
    } catch (error) {
      console.error("log page failed", { error: clipMessage(String(error)) });
      ws.close(CloseCode.internalError, "internal error");
    }
  }

  async #sendNext(ws: WebSocket): Promise<void> {
    const watcher = readAttachment(ws, "log-watcher");
    if (!watcher) return;
    // Without a wait where none is needed: a reader that waits for a page must not be fed twice.
    const reading = this.#read(watcher);
    const { text, last } = reading instanceof Promise ? await reading : reading;
    writeAttachment(ws, { ...watcher, seq: last, waiting: text === "" });
    for (const piece of text === "" ? [] : textChunks(text, this.#limits.rowChars)) ws.send(piece);
  }

  #read(watcher: Watcher): LogPage | Promise<LogPage> {
    const reading = this.#archive.read(watcher.seq, () => this.#page(watcher.seq, watcher));
    return reading instanceof Promise ? reading.catch(goneNotice) : reading;
  }

  /** Sends new events to the readers that wait for a page. */
  feed(): void {
    for (const ws of this.#sockets.waiting()) void this.next(ws);
  }

  /** Closes every reader: the session is gone, or nobody may read it any more. Returns how many there were. */
  dismiss(reason: string): number {
    return this.#sockets.closeAll(reason);
  }

  /** A page in the format of event streams. A line break in an envelope is white space, never part of a string. */
  #page(after: number, { redact, link }: Pick<Watcher, "redact" | "link">): LogPage {
    const { state, log } = this.#journal;
    let text = "";
    let last = after;
    if (!state || after >= state.lastSeq) return { text, last };
    const pseudonym = link ? this.#names.of : undefined;
    const view = { redact, pseudonym, personName: personNames(state) };
    for (const { seq, line } of log.envelopes(state.sessionId, after, view)) {
      if (text !== "" && text.length + line.length > this.#limits.deliverChars) break;
      text += `id: ${seq}\ndata: ${oneLine(line)}\n\n`;
      last = seq;
    }
    return { text, last };
  }
}

/** Tells a reader that part of the history is gone. Reading continues after that part. */
function goneNotice(error: unknown): LogPage {
  if (!(error instanceof HistoryGone)) throw error;
  return { text: `: ${error.message}\n\n`, last: error.last };
}
