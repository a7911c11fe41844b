import { readAttachment } from "../../durable/attachments.ts";
import type { ClientState } from "../../protocol/client-state.ts";
import { RESUMABLE } from "../../protocol/resumable-wire.ts";
import type { Allowance } from "../../protocol/rpc.ts";
import type { Client } from "../client.ts";
import type { ConnectionParts, StoredClient } from "../stored-client.ts";
import { ResumableSocket } from "./resumable-socket.ts";

/** The state of a resumable client. Values that change with every message are kept on its socket, the rest in storage. */
export class ResumableState implements Client {
  readonly #parts: ConnectionParts;
  readonly #stored: StoredClient;
  #socket: ResumableSocket | undefined;
  /** The rest of the allowance. The socket keeps it; storage keeps it only while there is no socket. */
  #allowance: Allowance | undefined;
  #handedOver: number;

  constructor(parts: ConnectionParts, stored: StoredClient) {
    this.#parts = parts;
    this.#stored = stored;
    const { state } = parts.store;
    this.#handedOver = Math.max(state?.sent ?? 0, this.socket()?.sent ?? 0);
    this.#allowance = this.socket()?.allowance ?? state?.allowance;
  }

  get state(): ClientState {
    const { state } = this.#stored;
    return this.#allowance ? { ...state, allowance: this.#allowance } : state;
  }

  /** Number of the last frame that, with all frames before it, has been handed to its session. */
  get handedOver(): number {
    return this.#handedOver;
  }

  get allowance(): Allowance | undefined {
    return this.#allowance;
  }

  /** Frame numbers need no write: sessions recognise a frame that comes again. */
  change({ sent: _, allowance, ...change }: Partial<ClientState>): void {
    if (allowance) this.#keepAllowance(allowance);
    if (Object.keys(change).length > 0) this.#save(change);
  }

  sessions(): readonly string[] {
    return this.#stored.sessions();
  }

  expectOpen(sessionId: string): void {
    this.#stored.attach(sessionId);
  }

  attach(sessionId: string, attachment: number): void {
    this.#stored.attach(sessionId);
    this.socket()?.moveTo(sessionId, { attachment, seq: attachment });
  }

  isCaughtUp(): boolean {
    return this.socket()?.isCaughtUp === true;
  }

  release(sessionId: string): void {
    this.#parts.store.detach(sessionId);
    this.socket()?.release(sessionId);
  }

  /** The client's open socket. */
  socket(): ResumableSocket | undefined {
    const { ctx, limits } = this.#parts;
    if (!this.#socket) {
      const ws = ctx.getWebSockets(RESUMABLE).find((one) => one.readyState === WebSocket.OPEN);
      const attachment = ws && readAttachment(ws, "resumable");
      if (attachment) this.#socket = new ResumableSocket(ws, attachment, limits);
    }
    return this.#socket?.ws.readyState === WebSocket.OPEN ? this.#socket : undefined;
  }

  setSocket(socket: ResumableSocket): void {
    this.#socket = socket;
  }

  /** Whether the socket is the client's latest one. */
  isCurrent(ws: WebSocket): boolean {
    return this.#socket === undefined || this.#socket.ws === ws;
  }

  /** Forgets a socket that is gone. */
  dropSocket(ws: WebSocket): void {
    // If this close has woken the object, the allowance has not been read yet.
    this.#allowance ??= readAttachment(ws, "resumable")?.allowance;
    this.#socket = undefined;
  }

  /** Storage keeps the state of the socket that is gone until the client comes back. */
  saveWithoutSocket(): void {
    this.#save({ sent: this.#handedOver });
  }

  /** All frames up to this number are with their sessions. */
  acknowledge(number: number): void {
    this.#handedOver = Math.max(this.#handedOver, number);
    const socket = this.socket();
    if (socket?.greeted) socket.acknowledgeFrames(this.#handedOver);
  }

  #keepAllowance(allowance: Allowance): void {
    this.#allowance = allowance;
    const socket = this.socket();
    if (socket) socket.keepAllowance(allowance);
    else this.#save({});
  }

  #save(change: Partial<ClientState>): void {
    const { allowance, ...state } = this.state;
    const kept = allowance && !this.socket() && { allowance };
    this.#parts.store.save({ ...state, ...change, ...kept }, Date.now());
  }
}
