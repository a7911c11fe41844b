import { z } from "zod";
import { LIMITS } from "../protocol/limits.ts";
import { encodeLink } from "../protocol/link.ts";
import type { Journal } from "./journal.ts";
import { forAgent } from "./render.ts";

/** What the object remembers of a host's socket: its process, and how far the log went down this socket. */
type Attachment = { run: string; sent: number };

/** The socket to the agent's host: a cursor over the log like any other reader. */
export class HostLink {
  readonly #ctx: DurableObjectState;
  readonly #journal: Journal;
  /** How far it has read. The socket remembers the last line sent; this also what needed none. */
  #read = { run: "", seq: 0 };

  constructor(ctx: DurableObjectState, journal: Journal) {
    this.#ctx = ctx;
    this.#journal = journal;
  }

  accept(): WebSocket {
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server, [TAG]);
    return client;
  }

  /** The process a socket has said hello for. */
  runOf(ws: WebSocket): string | undefined {
    return attachmentOf(ws)?.run;
  }

  /** Makes this socket the one for the run. `delivered` is what the process got through earlier sockets. */
  adopt(ws: WebSocket, run: string, delivered: number): void {
    for (const other of this.#ctx.getWebSockets(TAG)) {
      if (other !== ws && attachmentOf(other)) other.close(4408, "replaced");
    }
    ws.serializeAttachment({ run, sent: delivered } satisfies Attachment);
    this.#read = { run, seq: delivered };
  }

  /** The open socket of the session's process. */
  socket(): WebSocket | undefined {
    const run = this.#journal.state?.run?.id;
    if (run === undefined) return undefined;
    return this.#ctx
      .getWebSockets(TAG)
      .find((ws) => ws.readyState === WebSocket.OPEN && attachmentOf(ws)?.run === run);
  }

  stop(reason: string): void {
    this.socket()?.send(encodeLink({ t: "stop", reason }));
  }

  /** Sends the agent what the log has for it. */
  feed(): void {
    const ws = this.socket();
    const attachment = ws && attachmentOf(ws);
    if (!ws || !attachment) return;
    const { run, sent } = attachment;
    const read = this.#read.run === run ? this.#read.seq : 0;
    // What is in the archive is older than anything an agent could still wait for.
    const start = Math.max(sent, read, this.#journal.log.archivedUpTo);
    for (let seq = start; ; this.#read = { run, seq }) {
      const events = this.#journal.after(seq, LIMITS.linkBatchChars);
      const last = events.at(-1);
      if (!last) return;
      const lines = events.flatMap((event) => {
        const line = forAgent(event, (held) => this.#journal.frameAt(held));
        return line === undefined ? [] : [`${event.seq} ${line}`];
      });
      seq = last.seq;
      if (lines.length === 0) continue;
      ws.send(encodeLink({ t: "lines" }, lines));
      ws.serializeAttachment({ run, sent: seq } satisfies Attachment);
    }
  }
}

/** Tells a host's socket from those of live readers. */
const TAG = "host";

function attachmentOf(ws: WebSocket): Attachment | undefined {
  return (ws.deserializeAttachment() as Attachment | null) ?? undefined;
}

const HELLO = z.object({
  t: z.literal("hello"),
  run: z.string().min(1).max(100),
  agent: z.string(),
  host: z.string(),
  root: z.string(),
  delivered: z.number().int().min(0),
});

export type HostHello = z.infer<typeof HELLO>;

/** What a host may say on a session's socket. */
export const HOST_HEAD = z.union([
  HELLO,
  z.object({ t: z.literal("lines"), first: z.number().int().min(1) }),
]);
