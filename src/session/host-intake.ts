import type { Caller } from "../protocol/caller.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import { decodeLink, encodeLink } from "../protocol/host-wire.ts";
import type { HostStatusMessage } from "../protocol/rpc.ts";
import {
  drain,
  hostAbsent,
  hostGone,
  processLost,
  processRequestLost,
} from "./core/decide/host-departure.ts";
import { hostHello, hostItem, isWelcome } from "./core/decide/host-items.ts";
import type { Recorder } from "./log/journal.ts";
import { type HostHello, readHead } from "./readers/host-link.ts";
import type { SessionParts } from "./session-parts.ts";
import type { SessionSockets } from "./session-sockets.ts";

type Parts = Pick<SessionParts, "journal" | "link" | "clients" | "deadlines">;

/** Input about the agent process: from the host's socket, and from the workspace, which watches the host. */
export class HostIntake {
  readonly #parts: Parts;
  readonly #sockets: SessionSockets;
  readonly #record: Recorder;

  constructor(parts: Parts, sockets: SessionSockets, record: Recorder) {
    this.#parts = parts;
    this.#sockets = sockets;
    this.#record = record;
  }

  get #state() {
    return this.#parts.journal.requireState();
  }

  // ---- the socket -------------------------------------------------------------------------------------

  /** Accepts a socket of the host, which is authorised before it gets here. */
  accept(host: Caller): WebSocket {
    const { registration, tags } = this.#sockets.prepare(host, "host", this.#state.sessionId);
    const webSocket = this.#parts.link.accept(tags);
    this.#sockets.register(registration);
    this.endExpiredSockets();
    return webSocket;
  }

  /** Ends the sockets of expired tokens. The host reconnects with a newer token, unnoticed by the agent process. */
  endExpiredSockets(): void {
    const next = this.#sockets.endExpired(this.#parts.link.sockets());
    if (next !== null) this.#parts.deadlines.set("host-token", next);
  }

  receive(ws: WebSocket, message: string): void {
    const { head, lines } = decodeLink(message);
    const checked = readHead(head);
    if (!checked) return ws.close(CloseCode.badMessage, "unknown message");
    if (checked.t === "hello") this.#greet(ws, checked);
    else this.#takeItems(ws, checked.first, lines);
  }

  /** Releases a closed socket. The host is gone if the socket was that of the session's run and no other took over. */
  releaseSocket(ws: WebSocket, reason: string): void {
    const { link } = this.#parts;
    const run = link.runOf(ws);
    if (run === undefined || this.#state.run?.id !== run || link.socket()) return;
    this.#record((batch) => hostGone(batch, reason));
  }

  #greet(ws: WebSocket, hello: HostHello): void {
    const { link } = this.#parts;
    const state = this.#state;
    if (!isWelcome(state, hello)) return ws.close(CloseCode.superseded, "superseded");
    this.#record((batch) => {
      hostHello(batch, hello);
      const { since, received } = state.run ?? { since: 0, received: 0 };
      link.adopt(ws, hello.run, Math.max(hello.delivered, since));
      ws.send(encodeLink({ t: "welcome", received }));
    });
    if (state.run?.stopping) link.stop("no longer needed");
  }

  /** Takes the items that have not been taken before: a host repeats what was not acknowledged on an earlier socket. */
  #takeItems(ws: WebSocket, first: number, lines: string[]): void {
    const { link, clients } = this.#parts;
    const { run } = this.#state;
    if (!run || link.runOf(ws) !== run.id) return ws.close(CloseCode.superseded, "superseded");
    const repeated = run.received + 1 - first;
    if (repeated < 0) return ws.close(CloseCode.badMessage, "items are missing");
    this.#record((batch) => {
      const serving = () => clients.serving();
      for (const line of lines.slice(repeated)) hostItem(batch, line, serving);
    });
    ws.send(encodeLink({ t: "ack", received: first + lines.length - 1 }));
  }

  // ---- news from the workspace ------------------------------------------------------------------------

  /** The host is gone, or was restarted and does not have the session's process. */
  markLost(message: HostStatusMessage): void {
    if (!this.#isCurrent(message)) return;
    const { host, reason } = message;
    this.#record((batch) =>
      (batch.state.run?.host === host ? processLost : processRequestLost)(batch, reason),
    );
    this.#parts.link.dismiss("superseded");
  }

  /** The host has been absent for long, and the session waits for it: no other host has its files. */
  markAbsent(message: HostStatusMessage): void {
    if (!this.#isCurrent(message)) return;
    this.#record((batch) => hostAbsent(batch, message.host, message.reason));
    this.#parts.link.hangUp();
  }

  /** The host is being drained: its process stops after the running turn. */
  markDraining(message: HostStatusMessage): void {
    if (this.#isCurrent(message)) this.#record((batch) => drain(batch, message.host));
  }

  /** A message may arrive late or twice, when the session has made another process request already. */
  #isCurrent({ processRequest, host }: HostStatusMessage): boolean {
    // Hosts of earlier builds name no process request.
    return processRequest === 0
      ? this.#state.run?.host === host
      : this.#state.processRequest === processRequest;
  }
}
