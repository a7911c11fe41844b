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
import { isRestoration, type Place, restoration, restored } from "./restoration.ts";
import { tokenExpiry } from "./token-expiry.ts";

/** An acknowledgement wakes the gateway: it is sent for so much, or after a while. */
const TELL_CHARS = 256 * 1024;
const TELL_MS = 2_000;

export type LinkHandlers = {
  /** Frames for the editor. Resolves when it has room for more. */
  frames(lines: readonly string[]): Promise<void> | undefined;
  /** The socket is gone. */
  lost(loss: Loss): "retry" | "give up";
  connected(): void;
  /** The gateway tells when the token of this socket expires: there is still time for another. */
  tokenExpires(at: number): void;
  /** A session could not be taken up again after the gateway had forgotten the connection. */
  unrestored(sessionId: string, reason: string): void;
};

/** A connection to the gateway that goes on where it was, over as many sockets as it takes. */
export class GatewayLink {
  readonly #socket: GatewaySocket;
  readonly #handlers: LinkHandlers;
  readonly #log: Gateway["log"];
  /** What the editor said and no session has yet. */
  readonly #outbox: NumberedOutbox;
  readonly #limits: Limits;
  /** How far each session's stream has been read, for the next socket to go on from. */
  readonly #places = new Map<string, Place>();
  #own = 0;
  #connection: string | undefined;
  /** How the editor introduced itself. */
  #initialize: string | undefined;
  /** Answers that are for us, while the sessions of a forgotten connection are restored. */
  readonly #restoring = new Set<string>();
  /** Number of the last frame sent on this socket; undefined until its welcome. */
  #sent: number | undefined;
  /** Characters of pages taken from this socket, and told to the gateway; which socket of ours it is. */
  #taken = 0;
  #told = 0;
  #epoch = 0;
  #telling: NodeJS.Timeout | undefined;
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
    return this.#outbox.room();
  }

  /** Resolves when the gateway has all that was sent. */
  async drained(): Promise<void> {
    if (this.#outbox.acked < this.#outbox.last)
      await new Promise<void>((resolve) => (this.#drained = resolve));
  }

  /** Says goodbye: the gateway forgets this connection. */
  close(): void {
    clearTimeout(this.#telling);
    this.#socket.close();
  }

  /** Takes the next socket: it asks for a token again. */
  renew(): void {
    this.#sent = undefined;
    this.#socket.redial();
  }

  /** The gateway knows nothing of the connection: another one takes up its sessions. */
  #restore(): boolean {
    if (this.#connection === undefined || this.#initialize === undefined) return false;
    this.#log("the gateway has forgotten the connection; its sessions go on in a new one");
    const unsent = this.#outbox.unacknowledged().filter((line) => !isRestoration(line));
    const first = restoration(this.#initialize, this.#places);
    this.#restoring.clear();
    for (const { id } of first) this.#restoring.add(id);
    this.#connection = undefined;
    this.#own = 0;
    this.#outbox.renumber([...first.map(({ line }) => line), ...unsent]);
    return true;
  }

  /** Takes out what is for us: answers to what we asked ourselves, and news of the token. */
  #forEditor(of: string, lines: readonly string[]): readonly string[] {
    // In a session's stream there is only what was asked of it.
    if (this.#restoring.size === 0 && of !== "") return lines;
    return lines.filter((line) => !this.#isOurs(line));
  }

  #isOurs(line: string): boolean {
    const expiry = tokenExpiry(line);
    if (expiry !== undefined) {
      this.#handlers.tokenExpires(expiry);
      return true;
    }
    const answer = restored(line);
    if (!answer || !this.#restoring.delete(answer.id)) return false;
    const { id, sessionId, error } = answer;
    if (error === null) return true;
    this.#log(`${id} failed: ${error}`);
    if (sessionId !== undefined) {
      this.#places.delete(sessionId);
      this.#handlers.unrestored(sessionId, `the session could not be continued: ${error}`);
    }
    return true;
  }

  #hello(): void {
    this.#taken = 0;
    this.#told = 0;
    this.#epoch += 1;
    const cursors = [...this.#places].flatMap(([sessionId, { connection, cursor }]) =>
      connection === this.#connection ? [[sessionId, cursor] as const] : [],
    );
    this.#say({ t: "hello", own: this.#own, cursors: Object.fromEntries(cursors) });
  }

  #received(text: string): void {
    const { head, lines } = splitMessage(text);
    const said = readGatewayHead(head);
    // Going on could mean a hole in what the editor gets; starting over cannot.
    if (!said) return this.#socket.drop(`message not understood: ${text.slice(0, 100)}`);
    switch (said.t) {
      case "welcome":
        this.#connection = said.connection;
        this.#acked(said.received);
        this.#sent = this.#outbox.acked;
        this.#handlers.connected();
        return this.#pump();
      case "ack":
        return this.#acked(said.received);
      case "page":
        return this.#page(said, lines, text.length);
    }
  }

  #acked(received: number): void {
    this.#outbox.ack(received);
    if (this.#outbox.acked === this.#outbox.last) this.#drained?.();
  }

  #page({ of, at }: GatewayHead & { t: "page" }, lines: readonly string[], chars: number): void {
    const frames = this.#forEditor(of, lines);
    const room = frames.length === 0 ? undefined : this.#handlers.frames(frames);
    if (of === "") this.#own = Number(at);
    else this.#places.set(of, { connection: this.#connection as string, cursor: at });
    const epoch = this.#epoch;
    const take = () => {
      if (epoch !== this.#epoch) return;
      this.#taken += chars;
      if (this.#taken - this.#told >= TELL_CHARS) this.#tell();
      else this.#telling ??= setTimeout(() => this.#tell(), TELL_MS);
    };
    // An editor that does not read is not sent more than a little.
    if (room) void room.then(take);
    else take();
  }

  #tell(): void {
    clearTimeout(this.#telling);
    this.#telling = undefined;
    if (this.#sent === undefined || this.#told === this.#taken) return;
    this.#told = this.#taken;
    this.#say({ t: "ack", chars: this.#taken, own: this.#own });
  }

  #pump(): void {
    while (this.#sent !== undefined && this.#socket.bufferedAmount < this.#limits.linkBatchChars) {
      const lines = this.#outbox.batch(this.#sent);
      if (lines.length === 0) return;
      const first = this.#sent + 1;
      this.#sent += lines.length;
      this.#say({ t: "lines", first }, lines, () => this.#pump());
    }
  }

  #say(head: ClientHead, lines?: readonly string[], taken?: () => void): void {
    this.#socket.send(joinMessage(head, lines), taken);
  }
}
