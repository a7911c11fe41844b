import { readAttachment } from "../../durable/attachments.ts";
import type { ClientState } from "../../protocol/client-state.ts";
import { RESUMABLE } from "../../protocol/resumable-wire.ts";
import type { Allowance } from "../../protocol/rpc.ts";
import type { Client } from "../client.ts";
import type { ConnectionParts, StoredClient } from "../stored-client.ts";
import { Link } from "./resumable-socket.ts";

/** The state of a resumable client: in storage, and on its current socket for what changes with every message. */
export class ResumableState implements Client {
  readonly #parts: ConnectionParts;
  readonly #stored: StoredClient;
  #link: Link | undefined;
  /** The rest of the allowance. The socket keeps it; storage keeps it only while there is no socket. */
  #allowance: Allowance | undefined;
  /** Number of the last frame that, with all frames before it, has been handed to its session. */
  #handedOver: number;

  constructor(parts: ConnectionParts, stored: StoredClient) {
    this.#parts = parts;
    this.#stored = stored;
    const { state } = parts.store;
    this.#handedOver = Math.max(state?.sent ?? 0, this.link()?.sent ?? 0);
    this.#allowance = this.link()?.allowance ?? state?.allowance;
  }

  get state(): ClientState {
    const { state } = this.#stored;
    return this.#allowance ? { ...state, allowance: this.#allowance } : state;
  }

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
    this.link()?.moveTo(sessionId, { attachment, seq: attachment });
  }

  isCaughtUp(): boolean {
    return this.link()?.isCaughtUp === true;
  }

  release(sessionId: string): void {
    this.#parts.store.detach(sessionId);
    this.link()?.release(sessionId);
  }

  /** The client's open socket. */
  link(): Link | undefined {
    const { ctx, limits } = this.#parts;
    if (!this.#link) {
      const socket = ctx.getWebSockets(RESUMABLE).find((one) => one.readyState === WebSocket.OPEN);
      const attachment = socket && readAttachment(socket, "resumable");
      if (attachment) this.#link = new Link(socket, attachment, limits);
    }
    return this.#link?.socket.readyState === WebSocket.OPEN ? this.#link : undefined;
  }

  setLink(link: Link): void {
    this.#link = link;
  }

  /** Whether the socket is the client's latest one. */
  isCurrent(socket: WebSocket): boolean {
    return this.#link === undefined || this.#link.socket === socket;
  }

  /** The socket is gone: storage keeps its state until the client comes back. */
  dropLink(socket: WebSocket): void {
    // If this close has woken the object, the allowance has not been read yet.
    this.#allowance ??= readAttachment(socket, "resumable")?.allowance;
    this.#link = undefined;
  }

  saveWithoutLink(): void {
    this.#save({ sent: this.#handedOver });
  }

  /** All frames up to this number are with their sessions. */
  acknowledge(number: number): void {
    this.#handedOver = Math.max(this.#handedOver, number);
    const link = this.link();
    if (link?.greeted) link.received(this.#handedOver);
  }

  #keepAllowance(allowance: Allowance): void {
    this.#allowance = allowance;
    const link = this.link();
    if (link) link.keepAllowance(allowance);
    else this.#save({});
  }

  #save(change: Partial<ClientState>): void {
    const { allowance, ...state } = this.state;
    const kept = allowance && !this.link() && { allowance };
    this.#parts.store.save({ ...state, ...change, ...kept }, Date.now());
  }
}
