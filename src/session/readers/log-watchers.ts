import { readAttachment, writeAttachment } from "../../durable/attachments.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { oneLine } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { HistoryArchive } from "../log/history-archive.ts";
import type { Journal } from "../log/journal.ts";

/**
 * The readers of the live log. A reader asks for a page when it has room for one, and gets the page as soon as there
 * are events: a slow reader costs no memory. The HTTP response ends in the Worker, because an unfinished response would
 * keep this object awake; a socket does not.
 */
export class LogWatchers {
  readonly #ctx: DurableObjectState;
  readonly #journal: Journal;
  readonly #archive: HistoryArchive;
  readonly #limits: Limits;

  constructor(ctx: DurableObjectState, journal: Journal, archive: HistoryArchive, limits: Limits) {
    this.#ctx = ctx;
    this.#journal = journal;
    this.#archive = archive;
    this.#limits = limits;
  }

  /** Accepts a reader of the events after `after`. */
  accept(after: number, tags: readonly string[], redact?: boolean): Response {
    if (this.#ctx.getWebSockets(TAG).length >= this.#limits.watchersPerSession)
      return new Response("Too many watchers", { status: 429 });
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG, ...tags]);
    writeAttachment(server, { kind: "log-watcher", seq: after, waiting: false, redact });
    return new Response(null, { status: 101, webSocket: client });
  }

  /** A watcher has room for a page. */
  async next(ws: WebSocket): Promise<void> {
    const watcher = readAttachment(ws, "log-watcher");
    if (!watcher) return;
    const reaching = this.#archive.reach(watcher.seq);
    if (reaching) await reaching;
    const { text, last } = this.#page(watcher.seq, watcher.redact);
    writeAttachment(ws, { ...watcher, seq: last, waiting: text === "" });
    for (const piece of text === "" ? [] : textChunks(text, this.#limits.rowChars)) ws.send(piece);
  }

  /** Sends new events to the readers that wait for a page. */
  feed(): void {
    for (const ws of this.#ctx.getWebSockets(TAG)) {
      const isOpen = ws.readyState === WebSocket.OPEN;
      if (isOpen && readAttachment(ws, "log-watcher")?.waiting) void this.next(ws);
    }
  }

  /** Closes every reader: the session is gone, or nobody may read it any more. */
  dismiss(reason: string): void {
    for (const ws of this.#ctx.getWebSockets(TAG)) ws.close(CloseCode.normal, reason);
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

/** The tag of a reader's socket. */
const TAG = "watch";
