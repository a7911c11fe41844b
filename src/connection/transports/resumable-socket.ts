import { type AttachmentOf, writeAttachment } from "../../durable/attachments.ts";
import { type EventCursor, encodeCursor } from "../../protocol/cursor.ts";
import { oneLine } from "../../protocol/frame.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type GatewayHead, joinMessage } from "../../protocol/resumable-wire.ts";
import type { Allowance } from "../../protocol/rpc.ts";
import { hear } from "../liveness.ts";

/** The stream of what is in no session's log. */
export const OWN = "";

type Attachment = AttachmentOf<"resumable">;

/** One socket of a resumable client. */
export class Link {
  readonly socket: WebSocket;
  /** Why no more is taken from it. */
  failure: Error | undefined;
  #attachment: Attachment;

  constructor(socket: WebSocket, attachment: Attachment) {
    this.socket = socket;
    this.#attachment = attachment;
  }

  get greeted(): boolean {
    return this.#attachment.greeted;
  }

  get sent(): number {
    return this.#attachment.sent;
  }

  /** Whether it may get another page before it acknowledges one. */
  get hasRoom(): boolean {
    const { greeted, chars, acked } = this.#attachment;
    return greeted && chars - acked < LIMITS.resumeWindowChars;
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

  letsGo(sessionId: string): void {
    const { [sessionId]: _, ...cursors } = this.#attachment.cursors;
    this.#save({ ...this.#attachment, cursors });
  }

  get hasAll(): boolean {
    const { chars, acked } = this.#attachment;
    return chars === acked;
  }

  get own(): number {
    return this.#attachment.own;
  }

  /** When its client last said something that we had to be woken for; about. */
  get heard(): number {
    return this.#attachment.heard;
  }

  hears(now: number): void {
    const signs = hear(this.#attachment, now);
    if (signs) this.#save({ ...this.#attachment, ...signs });
  }

  get allowance(): Allowance | undefined {
    return this.#attachment.allowance;
  }

  holds(allowance: Allowance | undefined): void {
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

  /** Pages come in bunches, and writing down what is on the socket costs more than one: `moveTo` does, at the end. */
  page(sessionId: string, cursor: EventCursor, frames: readonly string[]): void {
    if (frames.length > 0) this.#page(sessionId, encodeCursor(cursor), frames);
  }

  tell(own: number, messages: readonly string[]): void {
    this.#page(OWN, String(own), messages);
    this.#save({ ...this.#attachment, own });
  }

  #page(of: string, at: string, frames: readonly string[]): void {
    const chars = this.#attachment.chars + this.say({ t: "page", of, at }, frames.map(oneLine));
    this.#attachment = { ...this.#attachment, chars };
  }

  /** Returns the length of the message. */
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
