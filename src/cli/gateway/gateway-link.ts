import { type Gateway, GatewaySocket, type Loss } from "../../node/gateway-socket.ts";
import { NumberedOutbox } from "../../node/numbered-outbox.ts";
import type { Limits } from "../../protocol/limits.ts";
import {
  type ClientHead,
  type GatewayHead,
  joinMessage,
  RESUMABLE,
  readGatewayHead,
  splitMessage,
} from "../../protocol/resumable-wire.ts";
import {
  isRestorationRequest,
  readRestorationResponse,
  restorationRequests,
  type SessionCursor,
} from "./restoration.ts";
import { tokenExpiry } from "./token-expiry.ts";

/** An acknowledgement wakes the gateway, so it is sent only after so many characters or after a while. */
const ACK_CHARS = 256 * 1024;
const ACK_MS = 2_000;

export type LinkHandlers = {
  /** Frames for the editor. Resolves when the editor has room for more. */
  frames(lines: readonly string[]): Promise<void> | undefined;
  /** The socket is lost. */
  lost(loss: Loss): "retry" | "give up";
  connected(): void;
  /** The gateway announces when the token of this socket expires, early enough to renew it. */
  tokenExpires(at: number): void;
  /** A session could not be resumed after the gateway had forgotten the connection. */
  unrestored(sessionId: string, reason: string): void;
};

/** A resumable connection to the gateway: it continues where it was, over as many sockets as needed. */
export class GatewayLink {
  readonly #socket: GatewaySocket;
  readonly #handlers: LinkHandlers;
  readonly #log: Gateway["log"];
  /** Frames of the editor that the gateway has not acknowledged yet. */
  readonly #outbox: NumberedOutbox;
  readonly #limits: Limits;
  /** How far each session's stream has been read: the next socket continues there. */
  readonly #cursors = new Map<string, SessionCursor>();
  /** How far the connection's own stream has been read. */
  #own = 0;
  #connection: string | undefined;
  /** The editor's `initialize` request. */
  #initialize: string | undefined;
  /** Ids of restoration requests without a response. The responses are not for the editor. */
  readonly #restoring = new Set<string>();
  /** Number of the last frame sent on this socket; undefined until the gateway's welcome. */
  #sent: number | undefined;
  /** Characters of pages that the editor has taken from this socket, and those acknowledged to the gateway. */
  #takenChars = 0;
  #ackedChars = 0;
  /** Counts sockets, so that a late write to the editor is not counted for the wrong socket. */
  #epoch = 0;
  #pendingAck: NodeJS.Timeout | undefined;
  #drained: (() => void) | undefined;

  constructor(gateway: Gateway, path: string, handlers: LinkHandlers) {
    this.#handlers = handlers;
    this.#log = gateway.log;
    this.#limits = gateway.limits;
    this.#outbox = new NumberedOutbox(gateway.limits);
    this.#outbox.onPush = () => this.#pump();
    this.#socket = new GatewaySocket(gateway, path, {
      dial: () => ({
        protocol: RESUMABLE,
        ...(this.#connection !== undefined && { headers: { "Acp-Connection-Id": this.#connection } }),
      }),
      opened: () => this.#hello(),
      message: (text) => this.#received(text),
      lost: (loss) => {
        this.#sent = undefined;
        if (loss.status === 404 && this.#restore()) return "retry";
        return handlers.lost(loss);
      },
    });
  }

  /** Resolves when there is room for more. */
  send(lines: readonly string[]): Promise<void> {
    this.#initialize ??= lines.find((line) => line.includes('"initialize"'));
    this.#outbox.push(lines);
    this.#socket.hurry();
    return this.#outbox.room();
  }

  /** Resolves when the gateway has all that was sent. */
  async drained(): Promise<void> {
    if (this.#outbox.acked < this.#outbox.last)
      await new Promise<void>((resolve) => (this.#drained = resolve));
  }

  /** Ends the connection for good: the gateway forgets it. */
  close(): void {
    clearTimeout(this.#pendingAck);
    this.#socket.close();
  }

  /** Replaces the socket, because each new socket asks for the token again. */
  renew(): void {
    this.#sent = undefined;
    this.#socket.redial();
  }

  /** Prepares a new connection that resumes all sessions, because the gateway has forgotten the old one. */
  #restore(): boolean {
    if (this.#connection === undefined || this.#initialize === undefined) return false;
    this.#log("the gateway has forgotten the connection; its sessions continue in a new one");
    const unsent = this.#outbox.unacknowledged().filter((line) => !isRestorationRequest(line));
    const first = restorationRequests(this.#initialize, this.#cursors);
    this.#restoring.clear();
    for (const { id } of first) this.#restoring.add(id);
    this.#connection = undefined;
    this.#own = 0;
    this.#outbox.renumber([...first.map(({ line }) => line), ...unsent]);
    return true;
  }

  /** Removes and handles the lines that are not for the editor: restoration responses and token warnings. */
  #forEditor(of: string, lines: readonly string[]): readonly string[] {
    // Outside a restoration, such lines come only on the connection's own stream.
    if (this.#restoring.size === 0 && of !== "") return lines;
    return lines.filter((line) => !this.#consume(line));
  }

  #consume(line: string): boolean {
    const expiry = tokenExpiry(line);
    if (expiry !== undefined) {
      this.#handlers.tokenExpires(expiry);
      return true;
    }
    const answer = readRestorationResponse(line);
    if (!answer || !this.#restoring.delete(answer.id)) return false;
    const { id, sessionId, error } = answer;
    if (error === null) return true;
    this.#log(`${id} failed: ${error}`);
    if (sessionId !== undefined) {
      this.#cursors.delete(sessionId);
      this.#handlers.unrestored(sessionId, `the session could not be continued: ${error}`);
    }
    return true;
  }

  #hello(): void {
    this.#takenChars = 0;
    this.#ackedChars = 0;
    this.#epoch += 1;
    const cursors = [...this.#cursors].flatMap(([sessionId, { connection, cursor }]) =>
      connection === this.#connection ? [[sessionId, cursor] as const] : [],
    );
    this.#send({ t: "hello", own: this.#own, cursors: Object.fromEntries(cursors) });
  }

  #received(text: string): void {
    const { head, lines } = splitMessage(text);
    const message = readGatewayHead(head);
    // Continuing could leave a gap in the editor's input. A new socket cannot.
    if (!message) return this.#socket.drop(`message not understood: ${text.slice(0, 100)}`);
    switch (message.t) {
      case "welcome":
        this.#connection = message.connection;
        this.#acked(message.received);
        this.#sent = this.#outbox.acked;
        this.#handlers.connected();
        return this.#pump();
      case "ack":
        return this.#acked(message.received);
      case "page":
        this.#socket.progress();
        return this.#page(message, lines, text.length);
    }
  }

  #acked(received: number): void {
    if (received > this.#outbox.acked) this.#socket.progress();
    this.#outbox.ack(received);
    if (this.#outbox.acked === this.#outbox.last) this.#drained?.();
  }

  #page({ of, at }: GatewayHead & { t: "page" }, lines: readonly string[], chars: number): void {
    const frames = this.#forEditor(of, lines);
    const room = frames.length === 0 ? undefined : this.#handlers.frames(frames);
    if (of === "") this.#own = Number(at);
    else this.#cursors.set(of, { connection: this.#connection as string, cursor: at });
    const epoch = this.#epoch;
    const take = () => {
      if (epoch !== this.#epoch) return;
      this.#takenChars += chars;
      if (this.#takenChars - this.#ackedChars >= ACK_CHARS) this.#acknowledge();
      else this.#pendingAck ??= setTimeout(() => this.#acknowledge(), ACK_MS);
    };
    // Pages count only when the editor has taken them, so the gateway stops sending to an editor that does not read.
    if (room) void room.then(take);
    else take();
  }

  #acknowledge(): void {
    clearTimeout(this.#pendingAck);
    this.#pendingAck = undefined;
    if (this.#sent === undefined || this.#ackedChars === this.#takenChars) return;
    this.#ackedChars = this.#takenChars;
    this.#send({ t: "ack", chars: this.#takenChars, own: this.#own });
  }

  #pump(): void {
    while (this.#sent !== undefined && this.#socket.bufferedAmount < this.#limits.linkBatchChars) {
      const lines = this.#outbox.batch(this.#sent);
      if (lines.length === 0) return;
      const first = this.#sent + 1;
      this.#sent += lines.length;
      this.#send({ t: "lines", first }, lines, () => this.#pump());
    }
  }

  #send(head: ClientHead, lines?: readonly string[], onAccepted?: () => void): void {
    this.#socket.send(joinMessage(head, lines), onAccepted);
  }
}
