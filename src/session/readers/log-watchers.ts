import { readAttachment, writeAttachment } from "../../durable/attachments.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { oneLine } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { HistoryArchive } from "../log/history-archive.ts";
import type { Journal } from "../log/journal.ts";

/**
 * Readers of the live log. Each asks for a page when it has room for one, and gets it as soon as there is
 * one: nothing is ever sent that was not asked for, so a slow reader costs no memory. An event stream ends
 * in the Worker, because an unfinished response would keep this object awake; its socket does not.
 */
export class Watchers {
  readonly #ctx: DurableObjectState;
  readonly #journal: Journal;
  readonly #archive: HistoryArchive;

  constructor(ctx: DurableObjectState, journal: Journal, archive: HistoryArchive) {
    this.#ctx = ctx;
    this.#journal = journal;
    this.#archive = archive;
  }

  accept(after: number, tags: readonly string[], redact?: boolean): Response {
    if (this.#ctx.getWebSockets(TAG).length >= LIMITS.watchersPerSession)
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
    for (const piece of text === "" ? [] : textChunks(text, LIMITS.rowChars)) ws.send(piece);
  }

  /** There is something new for those who wait. */
  feed(): void {
    for (const ws of this.#ctx.getWebSockets(TAG)) {
      const isOpen = ws.readyState === WebSocket.OPEN;
      if (isOpen && readAttachment(ws, "log-watcher")?.waiting) void this.next(ws);
    }
  }

  /** The session is gone. */
  dismiss(reason: string): void {
    for (const ws of this.#ctx.getWebSockets(TAG)) ws.close(CloseCode.normal, reason);
  }

  /** Events as an event stream has them. A line break in an envelope can only be white space. */
  #page(after: number, redact?: boolean): { text: string; last: number } {
    const { state, log } = this.#journal;
    let text = "";
    let last = after;
    if (!state || after >= state.lastSeq) return { text, last };
    for (const { seq, line } of log.envelopes(state.sessionId, after, redact)) {
      if (text !== "" && text.length + line.length > LIMITS.deliverChars) break;
      text += `id: ${seq}\ndata: ${oneLine(line)}\n\n`;
      last = seq;
    }
    return { text, last };
  }
}

const TAG = "watch";
