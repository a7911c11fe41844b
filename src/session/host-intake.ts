import type { Caller } from "../protocol/caller.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import { decodeLink, encodeLink } from "../protocol/host-wire.ts";
import type { Limits } from "../protocol/limits.ts";
import type { HostStatusMessage, ProcessPlacement } from "../protocol/rpc.ts";
import { takeCautiously } from "./cautious-taking.ts";
import {
  drain,
  hostAbsent,
  hostGone,
  processLost,
  processRequestLost,
} from "./core/decide/host-departure.ts";
import {
  type HostHello,
  hostHello,
  isWelcome,
  knownPlacement,
  type LinkToken,
  mayReplace,
} from "./core/decide/host-greeting.ts";
import { hostItem } from "./core/decide/host-items.ts";
import { dropItem, skipItem } from "./core/decide/skipped-item.ts";
import type { Recorder } from "./log/journal.ts";
import type { ProcessRequests } from "./outbox/process-requests.ts";
import { hostNameOf, type ItemsHead, readHead } from "./readers/host-link.ts";
import type { SessionContext, SessionParts } from "./session-parts.ts";
import type { SessionSockets } from "./session-sockets.ts";

type Parts = Pick<SessionParts, "journal" | "link" | "clients" | "deadlines" | "concealed" | "itemTries">;

/** Input about the agent process: from the host's socket, and from the workspace, which watches the host. */
export class HostIntake {
  readonly #ctx: DurableObjectState;
  readonly #limits: Limits;
  readonly #parts: Parts;
  readonly #sockets: SessionSockets;
  readonly #processes: Pick<ProcessRequests, "placementOf">;
  readonly #record: Recorder;
  /** Sockets whose hello waits for the workspace. Nothing is restored after an eviction: the wait ends with it. */
  readonly #greeting = new WeakSet<WebSocket>();

  constructor(
    { ctx, sockets, limits }: Pick<SessionContext, "ctx" | "sockets" | "limits">,
    parts: Parts,
    processes: Pick<ProcessRequests, "placementOf">,
    record: Recorder,
  ) {
    this.#ctx = ctx;
    this.#limits = limits;
    this.#parts = parts;
    this.#sockets = sockets;
    this.#processes = processes;
    this.#record = record;
  }

  get #state() {
    return this.#parts.journal.requireState();
  }

  // ---- the socket -------------------------------------------------------------------------------------

  /** Accepts a socket of the host, which is authorised before it gets here. */
  accept(host: Caller): WebSocket {
    const webSocket = this.#parts.link.accept(this.#sockets.hostTags(host), host.host);
    this.endExpiredSockets();
    return webSocket;
  }

  /** Ends the sockets of expired tokens. The host reconnects with a newer token, unnoticed by the agent process. */
  endExpiredSockets(): void {
    const next = this.#sockets.endExpired(this.#parts.link.sockets());
    if (next !== null) this.#parts.deadlines.set("host-token", next);
  }

  async receive(ws: WebSocket, message: string): Promise<void> {
    const { head, lines } = decodeLink(message);
    const checked = readHead(head);
    if (!checked) return ws.close(CloseCode.badMessage, "unknown message");
    if (checked.t === "hello") return this.#hello(ws, checked);
    await this.#takeItems(ws, checked, lines);
  }

  /** Releases a closed socket. The host is gone if the socket was that of the session's run and no other took over. */
  releaseSocket(ws: WebSocket, reason: string): void {
    const { link } = this.#parts;
    const run = link.runOf(ws);
    if (run === undefined || this.#state.run?.id !== run || link.socket()) return;
    this.#record((batch) => hostGone(batch, reason));
  }

  /** A hello is the first message of a socket. A hello has a cost that grows with the log, so a second one ends the socket. */
  async #hello(ws: WebSocket, hello: HostHello): Promise<void> {
    if (ws.readyState !== WebSocket.OPEN) return;
    if (this.#greeting.has(ws) || this.#parts.link.runOf(ws) !== undefined) {
      ws.close(CloseCode.badMessage, SECOND_HELLO);
      return this.releaseSocket(ws, SECOND_HELLO);
    }
    this.#greeting.add(ws);
    try {
      await this.#greet(ws, hello);
    } finally {
      this.#greeting.delete(ws);
    }
  }

  async #greet(ws: WebSocket, hello: HostHello): Promise<void> {
    if (!isWelcome(this.#state, hello)) return ws.close(CloseCode.superseded, "superseded");
    if ((hostNameOf(ws) ?? hello.host) !== hello.host)
      return ws.close(CloseCode.superseded, "the token is for a host of another name");
    const placement = await this.#placementOf(hello);
    const { link, journal } = this.#parts;
    const { state } = journal;
    if (!state || ws.readyState !== WebSocket.OPEN) return;
    // The host comes back and asks again.
    if (placement === "unknown") return ws.close(CloseCode.abandoned, "the workspace cannot be reached");
    if (!isWelcome(state, hello)) return ws.close(CloseCode.superseded, "superseded");
    if (placement?.host !== hello.host)
      return ws.close(CloseCode.superseded, "the process is not placed on this host");
    const isKnown = state.run?.id === hello.run;
    // The host may be the same after all: with this code it comes back and asks again, and its agent goes on.
    if (isKnown && !this.#mayServe(ws))
      return ws.close(CloseCode.nameInUse, "another host's socket serves the process");
    let refusal: string | undefined;
    this.#record(
      (batch) => {
        refusal = hostHello(batch, hello, placement);
      },
      () => {
        if (refusal !== undefined) return ws.close(CloseCode.superseded, refusal);
        if (isKnown) this.#parts.itemTries.expect();
        const { since, received } = state.run ?? { since: 0, received: 0 };
        link.adopt(ws, hello.run, Math.max(hello.delivered, since));
        const { chunkWindowMs: windowMs, frameChars } = this.#limits;
        ws.send(encodeLink({ t: "welcome", received, windowMs, frameChars, terminalOutput: true }));
      },
    );
    if (state.run?.id === hello.run && state.run.stopping) link.stop("no longer needed");
  }

  /** A living socket keeps its process against the sockets of other hosts. */
  #mayServe(ws: WebSocket): boolean {
    const holder = this.#parts.link.living();
    return holder === undefined || mayReplace(this.#tokenOf(holder), this.#tokenOf(ws));
  }

  #tokenOf(ws: WebSocket): LinkToken {
    return { ...this.#sockets.hostToken(ws), host: hostNameOf(ws) };
  }

  /** Only the workspace knows where a new process is placed. Its own answer is in the log for a process that is known. */
  #placementOf(hello: HostHello): ProcessPlacement | Promise<ProcessPlacement | "unknown" | null> {
    return knownPlacement(this.#state, hello) ?? this.#processes.placementOf(this.#state);
  }

  /** Takes the items that have not been taken before: a host repeats what was not acknowledged on an earlier socket. */
  async #takeItems(ws: WebSocket, { first, delivered = 0 }: ItemsHead, lines: string[]): Promise<void> {
    const { link, concealed, itemTries } = this.#parts;
    const { run } = this.#state;
    if (!run || link.runOf(ws) !== run.id) return ws.close(CloseCode.superseded, "superseded");
    const repeated = run.received + 1 - first;
    if (repeated < 0) return ws.close(CloseCode.badMessage, "items are missing");
    const fresh = lines.slice(repeated);
    if (fresh.length > 0 && itemTries.areNext()) await this.#takeCautiously(run.id, run.received + 1, fresh);
    else this.#take(fresh);
    concealed.forgetAnswers(delivered);
    ws.send(encodeLink({ t: "ack", received: first + lines.length - 1 }));
  }

  #takeCautiously(run: string, first: number, lines: readonly string[]): Promise<void> {
    const { itemTries } = this.#parts;
    return takeCautiously(this.#ctx, () => lines, this.#limits.itemTries, {
      begin: (group, at) => itemTries.begin(run, first + at, group.length),
      take: (group) => this.#take(group),
      skip: (line, ends) => this.#skipTried(line, ends),
      end: () => itemTries.end(),
    });
  }

  /** An item that cannot be taken is skipped. Otherwise the host would repeat it for ever, and all items after it. */
  #take(lines: readonly string[]): void {
    const serving = () => this.#parts.clients.serving();
    const maxChars = this.#limits.frameChars;
    try {
      this.#record((batch) => {
        for (const line of lines) {
          if (line.length > maxChars) skipItem(batch, line, `it exceeds ${maxChars} characters`);
          else hostItem(batch, line, serving);
        }
      });
    } catch {
      if (lines.length > 1) for (const one of lines) this.#take([one]);
      else this.#skip(lines[0] ?? "", "it could not be recorded");
    }
  }

  /** The error in the place of an item may end the object too. After as many tries again a fact alone has to do. */
  #skipTried(line: string, ends: number): void {
    const reason = `the session ended ${ends} times while it took the item`;
    if (ends < 2 * this.#limits.itemTries) this.#skip(line, reason);
    else this.#record((batch) => dropItem(batch, line, reason));
  }

  #skip(line: string, reason: string): void {
    try {
      this.#record((batch) => skipItem(batch, line, reason));
    } catch {
      this.#record((batch) => dropItem(batch, line, reason));
    }
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

const SECOND_HELLO = "a second hello";
