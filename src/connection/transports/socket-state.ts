import {
  type AttachmentOf,
  closeUnreadable,
  readAttachment,
  writeAttachment,
} from "../../durable/attachments.ts";
import { CLIENT_STATE, type ClientState } from "../../protocol/client-state.ts";
import type { EventCursor } from "../../protocol/cursor.ts";
import type { Allowance } from "../../protocol/rpc.ts";
import type { Client } from "../client.ts";

type Attachment = AttachmentOf<"client">;

/**
 * The state of a client on a plain WebSocket. Storage keeps the caller, which can exceed an attachment. The socket keeps
 * the parts that change with every message, and lives as long as the connection.
 */
export class SocketState implements Client {
  readonly #ws: WebSocket;
  readonly #kv: SyncKvStorage;
  #attachment: Attachment;
  #state: ClientState;

  private constructor(ws: WebSocket, kv: SyncKvStorage, attachment: Attachment, identity: Identity) {
    this.#ws = ws;
    this.#kv = kv;
    this.#attachment = attachment;
    this.#state = { ...identity, sent: attachment.sent, allowance: attachment.allowance };
  }

  /** Keeps the state of a client whose socket was just accepted. */
  static begin(ws: WebSocket, kv: SyncKvStorage, identity: Identity, allowance?: Allowance): void {
    kv.put(KEY, identity);
    const whole = { kind: "client", sent: 0, cursors: {}, heard: Date.now() } as const;
    writeAttachment(ws, { ...whole, ...(allowance && { allowance }) });
  }

  /** The state of a client whose socket is lost, as far as storage has it. */
  static lost(kv: SyncKvStorage): ClientState | undefined {
    const identity = IDENTITY.safeParse(kv.get(KEY));
    return identity.success ? { ...identity.data, sent: 0 } : undefined;
  }

  /** The state of the client at the other end of a socket; undefined when it has left, or when its state is unreadable. */
  static at(ws: WebSocket, kv: SyncKvStorage): SocketState | undefined {
    const attachment = readAttachment(ws, "client");
    // A client that has left has nothing in storage any more.
    if (!attachment || attachment.left) return undefined;
    const identity = IDENTITY.safeParse(kv.get(KEY));
    if (identity.success) return new SocketState(ws, kv, attachment, identity.data);
    closeUnreadable(ws);
    return undefined;
  }

  get state(): ClientState {
    return this.#state;
  }

  get attachment(): Attachment {
    return this.#attachment;
  }

  /** A message changes `sent` and `allowance` only, and costs no write to storage. */
  change({ sent, allowance, ...identity }: Partial<ClientState>): void {
    if (Object.keys(identity).length > 0) {
      const { sent: _, allowance: __, ...rest } = { ...this.#state, ...identity };
      this.#kv.put<Identity>(KEY, rest);
      this.#state = { ...this.#state, ...identity };
    }
    if (sent !== undefined || allowance)
      this.update({ ...(sent !== undefined && { sent }), ...(allowance && { allowance }) });
  }

  /** Changes what the socket keeps. */
  update(change: Partial<Attachment>): void {
    this.#attachment = { ...this.#attachment, ...change };
    const { sent, allowance } = this.#attachment;
    if (sent !== this.#state.sent || allowance !== this.#state.allowance)
      this.#state = { ...this.#state, sent, allowance };
    writeAttachment(this.#ws, this.#attachment);
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
    this.update({
      cursors: { ...this.#attachment.cursors, [sessionId]: { attachment, seq: attachment } },
    });
  }

  /** The client cannot ask again for anything that it has missed. */
  isCaughtUp(): boolean {
    return true;
  }

  release(sessionId: string): void {
    const { [sessionId]: _, ...cursors } = this.#attachment.cursors;
    this.update({ cursors });
  }

  releaseAll(): void {
    this.update({ cursors: {} });
  }
}

/** The client's identity, and the way it connected. */
const IDENTITY = CLIENT_STATE.omit({ sent: true, allowance: true });
type Identity = Omit<ClientState, "sent" | "allowance">;

const KEY = "client";
