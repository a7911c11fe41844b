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
export class Link {
  readonly socket: WebSocket;
  /** The reason why no more frames are taken from this socket. */
  failure: Error | undefined;
  readonly #limits: Limits;
  #attachment: Attachment;

  constructor(socket: WebSocket, attachment: Attachment, limits: Limits) {
    this.socket = socket;
    this.#attachment = attachment;
    this.#limits = limits;
  }

  get greeted(): boolean {
    return this.#attachment.greeted;
  }

  get sent(): number {
    return this.#attachment.sent;
  }

  /** Whether the client may get another page before it acknowledges one. */
  get hasRoom(): boolean {
    const { greeted, chars, acked } = this.#attachment;
    return greeted && chars - acked < this.#limits.resumeWindowChars;
  }

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
    const { chars, acked } = this.#attachment;
    return chars === acked;
  }

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

  greet(cursors: Record<string, EventCursor>, own: number): void {
    this.#save({ ...this.#attachment, greeted: true, cursors, own });
  }

  acked(chars: number): void {
    this.#save({ ...this.#attachment, acked: Math.min(chars, this.#attachment.chars) });
  }

  received(number: number): void {
    this.say({ t: "ack", received: number });
    this.#save({ ...this.#attachment, sent: number });
  }

  moveTo(sessionId: string, cursor: EventCursor): void {
    const { cursors } = this.#attachment;
    this.#save({ ...this.#attachment, cursors: { ...cursors, [sessionId]: cursor } });
  }

  /** Sends a page. Writing the attachment costs more than a page, so `moveTo` writes it after a bunch of pages. */
  page(sessionId: string, cursor: EventCursor, frames: readonly string[]): void {
    if (frames.length > 0) this.#page(sessionId, encodeCursor(cursor), frames);
  }

  /** Sends messages of the connection's own stream, up to number `own`. */
  pageOwn(own: number, messages: readonly string[]): void {
    this.#page(OWN, String(own), messages);
    this.#save({ ...this.#attachment, own });
  }

  #page(of: string, at: string, frames: readonly string[]): void {
    const chars = this.#attachment.chars + this.say({ t: "page", of, at }, frames.map(oneLine));
    this.#attachment = { ...this.#attachment, chars };
  }

  /** Sends a message. Returns its length. */
  say(head: GatewayHead, lines?: readonly string[]): number {
    const message = joinMessage(head, lines);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(message);
    return message.length;
  }

  close(code: number, reason: string): void {
    this.socket.close(code, reason);
  }

  #save(attachment: Attachment): void {
    this.#attachment = attachment;
    writeAttachment(this.socket, attachment);
  }
}
