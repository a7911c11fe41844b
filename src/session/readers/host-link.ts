import { z } from "zod";
import { readAttachment, socketKind, writeAttachment } from "../../durable/attachments.ts";
import { CloseCode } from "../../protocol/close-codes.ts";
import { encodeLink, OFFER_LIMITS } from "../../protocol/host-wire.ts";
import type { Limits } from "../../protocol/limits.ts";
import { type AgentSources, forAgent } from "../core/read/for-agent.ts";
import type { ConcealedValues } from "../log/concealed-values.ts";
import type { Journal } from "../log/journal.ts";

/** The socket to the agent's host: a cursor over the log, like every other reader. */
export class HostLink {
  readonly #ctx: DurableObjectState;
  readonly #journal: Journal;
  readonly #sources: AgentSources;
  readonly #limits: Limits;
  /**
   * The socket in use, and the last event read for it. After a wake, the last event sent is known from the attachment,
   * and that suffices: events in between had nothing for the agent.
   */
  #live: { ws: WebSocket; run: string; read: number } | undefined;

  constructor(ctx: DurableObjectState, journal: Journal, concealed: ConcealedValues, limits: Limits) {
    this.#ctx = ctx;
    this.#journal = journal;
    this.#limits = limits;
    this.#sources = {
      frameAt: (seq) => journal.frameAt(seq),
      reveal: (line, asked) => concealed.reveal(line, asked),
    };
  }

  /** `host` is the name in the host's token, if it has one. */
  accept(tags: readonly string[], host: string | undefined): WebSocket {
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG, ...tags]);
    writeAttachment(server, { kind: "host-link", host, run: null, since: Date.now() });
    return client;
  }

  /** The run that the host at this socket has said hello for. Log watchers have none. */
  runOf(ws: WebSocket): string | undefined {
    if (socketKind(ws) === "log-watcher") return undefined;
    return this.#live?.ws === ws ? this.#live.run : runAt(ws)?.id;
  }

  /** Makes this the socket of the run. `delivered` is the last event that the process got over earlier sockets. */
  adopt(ws: WebSocket, run: string, delivered: number): void {
    for (const other of this.#ctx.getWebSockets(TAG)) {
      if (other !== ws && runAt(other)) other.close(CloseCode.abandoned, "replaced");
    }
    note(ws, { id: run, sent: delivered });
    this.#live = { ws, run, read: delivered };
  }

  sockets(): WebSocket[] {
    return this.#ctx.getWebSockets(TAG);
  }

  /** The open socket of the session's run. */
  socket(): WebSocket | undefined {
    return this.#current()?.ws;
  }

  #current() {
    const run = this.#journal.state?.run?.id;
    if (this.#live?.run === run && this.#live?.ws.readyState === WebSocket.OPEN) return this.#live;
    this.#live = undefined;
    for (const ws of run === undefined ? [] : this.#ctx.getWebSockets(TAG)) {
      const known = ws.readyState === WebSocket.OPEN ? runAt(ws) : undefined;
      if (known && known.id === run) this.#live = { ws, run: known.id, read: known.sent };
    }
    return this.#live;
  }

  /** The open socket of the session's run, unless its host is silent. */
  living(): WebSocket | undefined {
    const ws = this.socket();
    return ws && !this.#isSilentAt(ws) ? ws : undefined;
  }

  stop(reason: string): void {
    this.socket()?.send(encodeLink({ t: "stop", reason }));
  }

  /** Closes the sockets of runs that the session has given up. */
  dismiss(reason: string): void {
    const run = this.#journal.state?.run?.id;
    for (const ws of this.#ctx.getWebSockets(TAG)) {
      const known = runAt(ws);
      if (known && known.id !== run) ws.close(CloseCode.superseded, reason);
    }
  }

  /** Closes sockets whose host sends no heartbeat. A socket that has just been accepted has had no time for one. */
  hangUp(): void {
    for (const ws of this.#ctx.getWebSockets(TAG))
      if (this.#isSilentAt(ws)) ws.close(CloseCode.abandoned, "silent");
  }

  /** Whether the host of the process sends no heartbeat. Its network may have failed without a close. */
  get isSilent(): boolean {
    const ws = this.socket();
    return ws !== undefined && this.#isSilentAt(ws);
  }

  #isSilentAt(ws: WebSocket): boolean {
    const ponged = this.#ctx.getWebSocketAutoResponseTimestamp(ws)?.getTime() ?? 0;
    const heard = Math.max(ponged, readAttachment(ws, "host-link")?.since ?? 0);
    return heard + this.#limits.hostSilentMs <= Date.now();
  }

  /** Sends the agent's lines from the events that it has not got yet. */
  feed(): void {
    const live = this.#current();
    if (!live) return;
    // An agent waits for nothing that is old enough to be in the archive.
    live.read = Math.max(live.read, this.#journal.log.archivedUpTo);
    for (;;) {
      const events = this.#journal.after(live.read, this.#limits.linkBatchChars);
      const last = events.at(-1);
      if (!last) return;
      live.read = last.seq;
      const lines = events.flatMap((event) => {
        const line = forAgent(event, this.#sources);
        return line === undefined ? [] : [`${event.seq} ${line}`];
      });
      if (lines.length === 0) continue;
      live.ws.send(encodeLink({ t: "lines" }, lines));
      note(live.ws, { id: live.run, sent: last.seq });
    }
  }
}

/** The name of the only host that may use the token of this socket; undefined if any may. */
export function hostNameOf(ws: WebSocket): string | undefined {
  return readAttachment(ws, "host-link")?.host;
}

function note(ws: WebSocket, run: { id: string; sent: number }): void {
  const { host, since } = readAttachment(ws, "host-link") ?? {};
  writeAttachment(ws, { kind: "host-link", host, run, since });
}

/** The tag of a host's socket. */
const TAG = "host";

/** The run that a socket has said hello for, and the last event that went down the socket. */
function runAt(ws: WebSocket) {
  return readAttachment(ws, "host-link")?.run ?? undefined;
}

const HELLO = z.object({
  t: z.literal("hello"),
  run: z.string().min(1).max(100),
  agent: z.string().max(OFFER_LIMITS.idChars),
  host: z.string().max(OFFER_LIMITS.nameChars),
  root: z.string().max(OFFER_LIMITS.pathChars),
  processRequest: z.number().int().min(0),
  delivered: z.number().int().min(0),
  draining: z.boolean(),
  io: z.enum(["host", "client"]).optional(),
});

type HostHello = z.infer<typeof HELLO>;

/** The head of a message from a host; undefined if it is none. */
export function readHead(head: unknown): HostHead | undefined {
  // Checked by hand, not with zod, because every batch of a stream has this head.
  const { t, first, delivered } = (head ?? {}) as { t?: unknown; first?: unknown; delivered?: unknown };
  if (t === "lines") {
    if (!Number.isSafeInteger(first) || (first as number) < 1) return undefined;
    const reached = Number.isSafeInteger(delivered) ? { delivered: delivered as number } : {};
    return { t, first: first as number, ...reached };
  }
  const hello = HELLO.safeParse(head);
  return hello.success ? hello.data : undefined;
}

export type ItemsHead = { t: "lines"; first: number; delivered?: number };

type HostHead = HostHello | ItemsHead;
