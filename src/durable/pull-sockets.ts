import { CloseCode } from "../protocol/close-codes.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import { type AttachmentOf, readAttachment, type SocketKind, writeAttachment } from "./attachments.ts";

/** The kinds of sockets whose reader asks for each message. */
type PullKind = {
  [Kind in SocketKind]: AttachmentOf<Kind> extends { waiting: boolean } ? Kind : never;
}[SocketKind];

/**
 * Sockets whose readers ask for each message when they have room for one. Nothing is sent unasked, so a slow reader
 * costs no memory. Event streams end in the Worker and read from such a socket: an unfinished response would keep the
 * object awake, a socket lets it hibernate.
 */
export class PullSockets<Kind extends PullKind> {
  readonly #ctx: DurableObjectState;
  readonly #kind: Kind;
  readonly #max: number | undefined;
  readonly #source: string;

  /** `source` names the thing that is read, for the refusal of more than `max` readers. */
  constructor(ctx: DurableObjectState, kind: Kind, source: string, max?: number) {
    this.#ctx = ctx;
    this.#kind = kind;
    this.#max = max;
    this.#source = source;
  }

  get isEmpty(): boolean {
    return this.#all().length === 0;
  }

  accept(attachment: AttachmentOf<Kind>, tags: readonly string[]): Result<WebSocket> {
    if (this.#max !== undefined && this.#all().length >= this.#max)
      return refused({
        reason: "too-many",
        message: `A ${this.#source} has at most ${this.#max} live readers`,
      });
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG, ...tags]);
    writeAttachment(server, attachment);
    return accepted(client);
  }

  /** The attachments of all readers. */
  attachments(): AttachmentOf<Kind>[] {
    return this.#all().flatMap((ws) => readAttachment(ws, this.#kind) ?? []);
  }

  /** The open sockets whose readers have asked for a message and not got one. */
  waiting(): WebSocket[] {
    return this.#all().filter(
      (ws) => ws.readyState === WebSocket.OPEN && readAttachment(ws, this.#kind)?.waiting === true,
    );
  }

  /** Returns how many sockets there were. */
  closeAll(reason: string): number {
    const open = this.#all().filter((ws) => ws.readyState === WebSocket.OPEN);
    for (const ws of open) ws.close(CloseCode.normal, reason);
    return open.length;
  }

  #all(): WebSocket[] {
    return this.#ctx.getWebSockets(TAG);
  }
}

const TAG = "watch";
