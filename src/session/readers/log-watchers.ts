import { readAttachment, writeAttachment } from "../../durable/attachments.ts";
import { PullSockets } from "../../durable/pull-sockets.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import { oneLine } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Result } from "../../protocol/refusal.ts";
import type { HistoryArchive } from "../log/history-archive.ts";
import { HistoryGone } from "../log/history-gone.ts";
import type { Journal } from "../log/journal.ts";

/** The readers of the live log. A reader asks for a page and gets the page as soon as there are events. */
export class LogWatchers {
  readonly #sockets: PullSockets<"log-watcher">;
  readonly #journal: Journal;
  readonly #archive: HistoryArchive;
  readonly #limits: Limits;

  constructor(ctx: DurableObjectState, journal: Journal, archive: HistoryArchive, limits: Limits) {
    this.#sockets = new PullSockets(ctx, "log-watcher", limits.watchersPerSession, "session");
    this.#journal = journal;
    this.#archive = archive;
    this.#limits = limits;
  }

  /** Accepts a reader of the events after `after`. */
  accept(after: number, tags: readonly string[], redact?: boolean): Result<WebSocket> {
    return this.#sockets.accept({ kind: "log-watcher", seq: after, waiting: false, redact }, tags);
  }

  /** A watcher has room for a page. */
  async next(ws: WebSocket): Promise<void> {
    const watcher = readAttachment(ws, "log-watcher");
    if (!watcher) return;
    // Without a wait where none is needed: a reader that waits for a page must not be fed twice.
    const reaching = this.#archive.reach(watcher.seq);
    const gone = reaching && (await goneIn(reaching));
    const { text, last } = gone
      ? { text: `: ${gone.message}\n\n`, last: gone.last }
      : this.#page(watcher.seq, watcher.redact);
    writeAttachment(ws, { ...watcher, seq: last, waiting: text === "" });
    for (const piece of text === "" ? [] : textChunks(text, this.#limits.rowChars)) ws.send(piece);
  }

  /** Sends new events to the readers that wait for a page. */
  feed(): void {
    for (const ws of this.#sockets.waiting()) void this.next(ws);
  }

  /** Closes every reader: the session is gone, or nobody may read it any more. */
  dismiss(reason: string): void {
    this.#sockets.closeAll(reason);
  }

  /** A page in the format of event streams. A line break in an envelope is white space, never part of a string. */
  #page(after: number, redact?: boolean): { text: string; last: number } {
    const { state, log } = this.#journal;
    let text = "";
    let last = after;
    if (!state || after >= state.lastSeq) return { text, last };
    for (const { seq, line } of log.envelopes(state.sessionId, after, redact)) {
      if (text !== "" && text.length + line.length > this.#limits.deliverChars) break;
      text += `id: ${seq}\ndata: ${oneLine(line)}\n\n`;
      last = seq;
    }
    return { text, last };
  }
}

/** The part of the history that turned out to be gone; undefined when the events are within reach. */
async function goneIn(reaching: Promise<unknown>): Promise<HistoryGone | undefined> {
  try {
    await reaching;
    return undefined;
  } catch (error) {
    if (error instanceof HistoryGone) return error;
    throw error;
  }
}
