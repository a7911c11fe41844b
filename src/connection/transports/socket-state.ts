import { type AttachmentOf, writeAttachment } from "../../durable/attachments.ts";
import type { ClientState } from "../../protocol/client-state.ts";
import type { EventCursor } from "../../protocol/cursor.ts";
import type { Client } from "../client.ts";

/** Everything known of a client on a plain WebSocket is on its socket, which lives as long as the connection. */
type SocketClientState = AttachmentOf<"client">;

export class SocketState implements Client {
  readonly #ws: WebSocket;
  #attachment: SocketClientState;

  constructor(ws: WebSocket, attachment: SocketClientState) {
    this.#ws = ws;
    this.#attachment = attachment;
  }

  get state(): ClientState {
    return this.#attachment;
  }

  get attachment(): SocketClientState {
    return this.#attachment;
  }

  change(change: Partial<SocketClientState>): void {
    const attachment = { ...this.#attachment, ...change };
    this.#attachment = attachment;
    writeAttachment(this.#ws, attachment);
  }

  sessions(): readonly string[] {
    return Object.keys(this.#attachment.cursors);
  }

  cursor(sessionId: string): EventCursor | undefined {
    return this.#attachment.cursors[sessionId];
  }

  expectOpen(sessionId: string): void {
    if (!this.cursor(sessionId)) this.attach(sessionId, 0);
  }

  attach(sessionId: string, attachment: number): void {
    this.change({
      cursors: { ...this.#attachment.cursors, [sessionId]: { attachment, seq: attachment } },
    });
  }

  /** The client cannot ask again for anything that it has missed. */
  isCaughtUp(): boolean {
    return true;
  }

  release(sessionId: string): void {
    const { [sessionId]: _, ...cursors } = this.#attachment.cursors;
    this.change({ cursors });
  }

  releaseAll(): void {
    this.change({ cursors: {} });
  }
}
