import { type AttachmentOf, readAttachment, writeAttachment } from "../../durable/attachments.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { Cursor } from "../../protocol/cursor.ts";
import type { Limits } from "../../protocol/limits.ts";

type Attachment = AttachmentOf<"stream-reader">;

/**
 * The reader of one event stream, at the other end of a socket to the Worker. The HTTP response ends in the Worker,
 * because an unfinished response would keep this object awake; a socket does not.
 */
export class StreamReader {
  readonly socket: WebSocket;
  readonly #limits: Limits;
  readonly #gone = Promise.withResolvers<void>();
  #attachment: Attachment;
  /** The reader has asked for a page since the last probe. */
  #hasAsked = false;

  constructor(socket: WebSocket, attachment: Attachment, limits: Limits) {
    this.socket = socket;
    this.#attachment = attachment;
    this.#limits = limits;
  }

  get stream(): string {
    return this.#attachment.stream;
  }

  get cursor(): Cursor | null {
    return this.#attachment.cursor;
  }

  /** The reader has asked for a page and has not got it yet. */
  get isWaiting(): boolean {
    return this.#attachment.waiting;
  }

  wait(): void {
    this.#hasAsked = true;
    this.#save({ ...this.#attachment, waiting: true });
  }

  moveTo(cursor: Cursor | null): void {
    this.#save({ ...this.#attachment, cursor });
  }

  /** Writes the id of the place where the stream begins, which a client keeps without handling an event. */
  greet(id: string): void {
    this.socket.send(`id: ${id}\n\n`);
  }

  /** Sends the page that the reader asked for. */
  send(text: string, cursor: Cursor | null): void {
    for (const piece of textChunks(text, this.#limits.rowChars)) this.socket.send(piece);
    this.#save({ ...this.#attachment, waiting: false, cursor });
  }

  /**
   * Probes the reader by writing a comment. The runtime notices only after a write, and with some delay, that a reader
   * has hung up. A reader that is alive takes the comment and asks for the next page.
   */
  async isAlive(): Promise<boolean> {
    this.#hasAsked = false;
    this.send(": still there?\n\n", this.cursor);
    await Promise.race([this.#gone.promise, scheduler.wait(this.#limits.readerProbeMs)]);
    return this.#hasAsked && this.socket.readyState === WebSocket.OPEN;
  }

  markGone(): void {
    this.#gone.resolve();
  }

  #save(attachment: Attachment): void {
    this.#attachment = attachment;
    writeAttachment(this.socket, attachment);
  }
}

/** The readers of a connection's event streams, at most one per stream. */
export class StreamReaders {
  readonly #ctx: DurableObjectState;
  readonly #limits: Limits;
  #byStream: Map<string, StreamReader> | undefined;

  constructor(ctx: DurableObjectState, limits: Limits) {
    this.#ctx = ctx;
    this.#limits = limits;
  }

  /** Makes a socket for the stream's new reader, in place of the current one. */
  accept(stream: string, cursor: Cursor | null): { client: WebSocket; reader: StreamReader } {
    const readers = this.#known();
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG]);
    const attachment: Attachment = { kind: "stream-reader", stream, waiting: false, cursor };
    writeAttachment(server, attachment);
    readers.get(stream)?.socket.close(CloseCode.normal, "replaced");
    const reader = new StreamReader(server, attachment, this.#limits);
    readers.set(stream, reader);
    return { client, reader };
  }

  get count(): number {
    return this.#known().size;
  }

  /** The stream's reader while its socket is open. */
  of(stream: string): StreamReader | undefined {
    const reader = this.last(stream);
    return reader?.socket.readyState === WebSocket.OPEN ? reader : undefined;
  }

  /** The stream's reader, even if it has hung up and its end was not processed yet. */
  last(stream: string): StreamReader | undefined {
    return this.#known().get(stream);
  }

  /** The reader at the other end of a socket; undefined when another reader has taken its place. */
  at(socket: WebSocket): StreamReader | undefined {
    const attachment = readAttachment(socket, "stream-reader");
    const reader = attachment && this.#known().get(attachment.stream);
    return reader?.socket === socket ? reader : undefined;
  }

  remove(reader: StreamReader): void {
    this.#known().delete(reader.stream);
    reader.markGone();
  }

  /** Closes every reader's socket. The cursors are kept. */
  hangUp(reason: string): void {
    for (const { socket } of this.#known().values()) socket.close(CloseCode.normal, reason);
  }

  /** Closes every reader's socket and forgets the readers. */
  dismiss(reason: string): void {
    this.hangUp(reason);
    this.#byStream = new Map();
  }

  #known(): Map<string, StreamReader> {
    if (this.#byStream) return this.#byStream;
    this.#byStream = new Map();
    for (const socket of this.#ctx.getWebSockets(TAG)) {
      const attachment = readAttachment(socket, "stream-reader");
      if (!attachment) continue;
      const reader = new StreamReader(socket, attachment, this.#limits);
      // A closing socket may belong to a replaced reader. If it does not, its cursor is still needed.
      if (socket.readyState === WebSocket.OPEN || !this.#byStream.has(reader.stream))
        this.#byStream.set(reader.stream, reader);
    }
    return this.#byStream;
  }
}

/** The tag of a reader's socket. */
const TAG = "reader";
