import { type AttachmentOf, writeAttachment } from "../../durable/attachments.ts";
import { type EventCursor, encodeCursor } from "../../protocol/cursor.ts";
import { oneLine } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";
import { type GatewayHead, joinMessage } from "../../protocol/resumable-wire.ts";
import type { Allowance } from "../../protocol/rpc.ts";
import { touch } from "../liveness.ts";

/** The name of the connection's own stream, for messages that are in no session's log. */
export const OWN = "";

type Attachment = AttachmentOf<"resumable">;

/** One socket of a resumable client. */
export class ResumableSocket {
  readonly ws: WebSocket;
  /** The reason why no more frames are taken from this socket. */
  failure: Error | undefined;
  readonly #limits: Limits;
  #attachment: Attachment;
  /** Characters sent in pages. The attachment may be behind, see `page`. */
  #chars: number;

  constructor(ws: WebSocket, attachment: Attachment, limits: Limits) {
    this.ws = ws;
    this.#attachment = attachment;
    this.#chars = attachment.chars;
    this.#limits = limits;
  }

  /** The client has said hello on this socket. */
  get greeted(): boolean {
    return this.#attachment.greeted;
  }

  /** Number of the client's last frame that was acknowledged on this socket. */
  get sent(): number {
    return this.#attachment.sent;
  }

  /** Whether the client may get another page before it acknowledges one. */
  get hasRoom(): boolean {
    const { greeted, acked } = this.#attachment;
    return greeted && this.#chars - acked < this.#limits.resumeWindowChars;
  }

  /** Null when the session has asked and the client has got nothing of it; undefined when it has not asked. */
  cursor(sessionId: string): EventCursor | null | undefined {
    return this.#attachment.cursors[sessionId];
  }

  /** A session has asked where the client is, and may deliver from there. */
  startReading(sessionId: string): void {
    const { greeted, cursors } = this.#attachment;
    if (greeted && cursors[sessionId] === undefined)
      this.#save({ ...this.#attachment, cursors: { ...cursors, [sessionId]: null } });
  }

  release(sessionId: string): void {
    const { [sessionId]: _, ...cursors } = this.#attachment.cursors;
    this.#save({ ...this.#attachment, cursors });
  }

  /** Whether the client has acknowledged every page. */
  get isCaughtUp(): boolean {
    return this.#chars === this.#attachment.acked;
  }

  /** Number of the last message of the connection's own stream that was sent. */
  get own(): number {
    return this.#attachment.own;
  }

  /** When the client last sent a message, roughly. Heartbeats do not count: they do not wake the object. */
  get heard(): number {
    return this.#attachment.heard;
  }

  touch(now: number): void {
    const liveness = touch(this.#attachment, now, this.#limits);
    if (liveness) this.#save({ ...this.#attachment, ...liveness });
  }

  get allowance(): Allowance | undefined {
    return this.#attachment.allowance;
  }

  keepAllowance(allowance: Allowance): void {
    this.#save({ ...this.#attachment, allowance });
  }

  /** The client has named its cursors. */
  greet(cursors: Record<string, EventCursor>, own: number): void {
    this.#save({ ...this.#attachment, greeted: true, cursors, own });
  }

  /** The client has pages of this many characters. */
  acknowledgePages(chars: number): void {
    this.#save({ ...this.#attachment, acked: Math.min(chars, this.#chars) });
  }

  /** Tells the client that its frames up to this number are with their sessions. */
  acknowledgeFrames(number: number): void {
    this.say({ t: "ack", received: number });
    this.#save({ ...this.#attachment, sent: number });
  }

  moveTo(sessionId: string, cursor: EventCursor): void {
    const { cursors } = this.#attachment;
    this.#save({ ...this.#attachment, cursors: { ...cursors, [sessionId]: cursor } });
  }

  /** Sends a page. Writing the attachment costs more than a page, so `moveTo` writes it once after several pages. */
  page(sessionId: string, cursor: EventCursor, frames: readonly string[]): void {
    if (frames.length > 0) this.#page(sessionId, encodeCursor(cursor), frames);
  }

  /** Sends messages of the connection's own stream, up to number `own`. */
  pageOwn(own: number, messages: readonly string[]): void {
    this.#page(OWN, String(own), messages);
    this.#save({ ...this.#attachment, own });
  }

  #page(of: string, at: string, frames: readonly string[]): void {
    this.#chars += this.say({ t: "page", of, at }, frames.map(oneLine));
  }

  /** Sends a message. Returns its length. */
  say(head: GatewayHead, lines?: readonly string[]): number {
    const message = joinMessage(head, lines);
    if (this.ws.readyState === WebSocket.OPEN) this.ws.send(message);
    return message.length;
  }

  close(code: number, reason: string): void {
    this.ws.close(code, reason);
  }

  #save(changed: Attachment): void {
    const attachment = { ...changed, chars: this.#chars };
    this.#attachment = attachment;
    writeAttachment(this.ws, attachment);
  }
}
