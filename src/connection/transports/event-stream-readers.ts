import { type AttachmentOf, readAttachment, writeAttachment } from "../../durable/attachments.ts";
import { textChunks } from "../../durable/text-chunks.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import type { Cursor } from "../../protocol/cursor.ts";
import { LIMITS } from "../../protocol/limits.ts";

type Attachment = AttachmentOf<"stream-reader">;

/** The reader of one event stream. It ends in the Worker, because an unfinished response would keep us awake. */
export class StreamReader {
  readonly socket: WebSocket;
  #attachment: Attachment;
  readonly #gone = Promise.withResolvers<void>();
  #asked = false;

  constructor(socket: WebSocket, attachment: Attachment) {
    this.socket = socket;
    this.#attachment = attachment;
  }

  get stream(): string {
    return this.#attachment.stream;
  }

  get cursor(): Cursor | null {
    return this.#attachment.cursor;
  }

  /** It has asked for a page and not got it yet. */
  get waiting(): boolean {
    return this.#attachment.waiting;
  }

  wait(): void {
    this.#asked = true;
    this.#save({ ...this.#attachment, waiting: true });
  }

  moveTo(cursor: Cursor | null): void {
    this.#save({ ...this.#attachment, cursor });
  }

  /** The page it asked for. */
  send(text: string, cursor: Cursor | null): void {
    for (const piece of textChunks(text, LIMITS.rowChars)) this.socket.send(piece);
    this.#save({ ...this.#attachment, waiting: false, cursor });
  }

  /**
   * Whether it is still there. One that has hung up may be missed only when something is written to it, and then
   * not at once; one that is there takes it and asks for the next page.
   */
  async isThere(): Promise<boolean> {
    this.#asked = false;
    this.send(": still there?\n\n", this.cursor);
    await Promise.race([this.#gone.promise, scheduler.wait(LIMITS.readerProbeMs)]);
    return this.#asked && this.socket.readyState === WebSocket.OPEN;
  }

  left(): void {
    this.#gone.resolve();
  }

  #save(attachment: Attachment): void {
    this.#attachment = attachment;
    writeAttachment(this.socket, attachment);
  }
}

/** The event streams of a connection that are being read, at most one reader each. */
export class Readers {
  readonly #ctx: DurableObjectState;
  #byStream: Map<string, StreamReader> | undefined;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  accept(stream: string, cursor: Cursor | null): WebSocket {
    const readers = this.#known();
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG]);
    const attachment: Attachment = { kind: "stream-reader", stream, waiting: false, cursor };
    writeAttachment(server, attachment);
    readers.get(stream)?.socket.close(CloseCode.normal, "replaced");
    readers.set(stream, new StreamReader(server, attachment));
    return client;
  }

  get count(): number {
    return this.#known().size;
  }

  of(stream: string): StreamReader | undefined {
    const reader = this.last(stream);
    return reader?.socket.readyState === WebSocket.OPEN ? reader : undefined;
  }

  /** The same, or one that has hung up and was not missed yet. */
  last(stream: string): StreamReader | undefined {
    return this.#known().get(stream);
  }

  /** The reader at the other end of a socket; undefined when another has taken its place. */
  at(socket: WebSocket): StreamReader | undefined {
    const attachment = readAttachment(socket, "stream-reader");
    const reader = attachment && this.#known().get(attachment.stream);
    return reader?.socket === socket ? reader : undefined;
  }

  remove(reader: StreamReader): void {
    this.#known().delete(reader.stream);
    reader.left();
  }

  /** Ends what is being read; where each reader was is kept. */
  hangUp(reason: string): void {
    for (const { socket } of this.#known().values()) socket.close(CloseCode.normal, reason);
  }

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
      const reader = new StreamReader(socket, attachment);
      // One that is closing may have been replaced; if not, its place is still to be taken over.
      if (socket.readyState === WebSocket.OPEN || !this.#byStream.has(reader.stream))
        this.#byStream.set(reader.stream, reader);
    }
    return this.#byStream;
  }
}

const TAG = "reader";
