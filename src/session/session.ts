import { DurableObject } from "cloudflare:workers";
import { ulid } from "ulid";
import { z } from "zod";
import type { Caller } from "../protocol/caller.ts";
import { type Frame, isFault, readFrame } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";
import { decodeLink, encodeLink } from "../protocol/link.ts";
import { Batch } from "./batch.ts";
import { clientFrame, open } from "./client-input.ts";
import { DEADLINE_SCHEMA, Deadlines } from "./deadlines.ts";
import { type FrameEvent, isFrame, type LogEvent } from "./event.ts";
import { ClientCursor, type Reader } from "./fanout.ts";
import { hostGone, hostHello, hostItem, isWelcome } from "./host-input.ts";
import { indexRow, writeIndex } from "./index-row.ts";
import { EventLog, LOG_SCHEMA } from "./log.ts";
import { project } from "./projection.ts";
import { forAgent } from "./render.ts";
import { SNAPSHOT_SCHEMA, Snapshots } from "./snapshot.ts";
import type { SessionState } from "./state.ts";
import { processLost, unavailable } from "./turns.ts";

export type OpenRequest = {
  sessionId: string;
  connection: string;
  caller: Caller;
  workspace: string;
  agent: string;
  raw: string;
};
export type ClientFrames = {
  sessionId: string;
  connection: string;
  caller: Caller;
  first: number;
  frames: string[];
};
export type EventsPage = { text: string; last: number; count: number };

/**
 * One session: the log, and everyone who reads it.
 *
 * Every input becomes events, the events are written, and only then do the readers (the agent's link and
 * each client's cursor) go on. All fields are rebuilt from storage and socket attachments.
 */
export class AcpSession extends DurableObject<Env> {
  readonly #log: EventLog;
  readonly #snapshots: Snapshots;
  readonly #deadlines: Deadlines<"agent-start" | "index">;
  #state: SessionState | undefined;
  /** The newest events, so that readers who keep up do not go through SQLite. */
  #tail: LogEvent[] = [];
  #clients = new Map<string, ClientCursor>();
  /** How far the agent's link has read. The socket remembers the last line sent; this also what needed none. */
  #linkRead = { run: "", seq: 0 };

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#log = new EventLog(ctx.storage.sql);
    this.#snapshots = new Snapshots(ctx.storage.sql);
    this.#deadlines = new Deadlines(ctx.storage);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    if (!this.#exists()) return;
    this.#state = this.#snapshots.load(this.#log);
    for (const row of ctx.storage.sql.exec<ClientRow>("SELECT connection, attach, start FROM client")) {
      this.#clients.set(row.connection, new ClientCursor(row.connection, row.attach, row.start));
    }
  }

  // ---- clients ----------------------------------------------------------------------------------------

  /** Makes the session. Storage is touched only here, so that asking for an unknown id leaves no trace. */
  open(request: OpenRequest): void {
    if (this.#state) return;
    const { sql } = this.ctx.storage;
    sql.exec(LOG_SCHEMA + SNAPSHOT_SCHEMA + DEADLINE_SCHEMA + CLIENT_SCHEMA);
    this.#attach(request.connection, 0, 0);
    this.#state = this.#snapshots.create(request.sessionId);
    const { tenant, subject: owner } = request.caller;
    const batch = this.#batch(this.#state);
    open(batch, request.connection, ownFrame(request.raw), {
      tenant,
      owner,
      workspace: request.workspace,
      agent: request.agent,
    });
    this.#commit(batch);
  }

  /** Takes frames of one client, numbered so that a repeated call is noticed. False: no such session for this caller. */
  receive({ connection, caller, first, frames }: ClientFrames): boolean {
    const state = this.#readable(caller);
    if (!state) return false;
    const batch = this.#batch(state);
    for (const raw of frames.slice(this.#alreadyReceived(connection, first))) {
      const frame = ownFrame(raw);
      const seq = batch.nextSeq;
      clientFrame(batch, connection, frame, () => `turn_${ulid()}`);
      if (frame.method === "session/load") this.#attach(connection, seq, 0);
      if (frame.method === "session/resume") this.#attach(connection, seq, seq);
    }
    this.ctx.storage.sql.exec(
      "UPDATE client SET received = ? WHERE connection = ?",
      first + frames.length - 1,
      connection,
    );
    this.#commit(batch);
    return true;
  }

  /** A dropped client decides nothing: its turn goes on, its permissions stay open. */
  detach(connection: string): void {
    if (!this.#state) return;
    this.#clients.delete(connection);
    this.ctx.storage.sql.exec("DELETE FROM client WHERE connection = ?", connection);
  }

  #attach(connection: string, attach: number, start: number): void {
    this.#clients.set(connection, new ClientCursor(connection, attach, start));
    this.ctx.storage.sql.exec(
      `INSERT INTO client (connection, attach, start, received) VALUES (?, ?, ?, 0)
       ON CONFLICT (connection) DO UPDATE SET attach = excluded.attach, start = excluded.start`,
      connection,
      attach,
      start,
    );
  }

  #alreadyReceived(connection: string, first: number): number {
    const [row] = this.ctx.storage.sql
      .exec<{ received: number }>("SELECT received FROM client WHERE connection = ?", connection)
      .toArray();
    return Math.max(0, (row?.received ?? 0) + 1 - first);
  }

  // ---- the host ---------------------------------------------------------------------------------------

  /** The host's socket for this session. The Worker has checked the token; the workspace is checked here. */
  override async fetch(request: Request): Promise<Response> {
    const { tenant, workspace } = JSON.parse(request.headers.get("X-Acp-Host") ?? "{}") as {
      tenant?: string;
      workspace?: string;
    };
    const identity = this.#state?.identity;
    if (!identity || identity.tenant !== tenant || identity.workspace !== workspace)
      return new Response("Unknown session", { status: 404 });
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }

  override webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): void {
    if (typeof message !== "string" || !this.#state) return;
    const { head: rawHead, lines } = decodeLink(message);
    const head = HOST_HEAD.safeParse(rawHead);
    if (!head.success) return ws.close(4400, "unknown message");
    if (head.data.t === "hello") this.#hello(ws, this.#state, head.data);
    else this.#items(ws, this.#state, head.data.first, lines);
  }

  override webSocketClose(ws: WebSocket, code: number, reason: string): void {
    const link = linkOf(ws);
    if (!this.#state || !link || this.#state.run?.id !== link.run || this.#link()) return;
    const batch = this.#batch(this.#state);
    hostGone(batch, reason || `socket closed (${code})`);
    this.#commit(batch);
  }

  /** The workspace learnt that the host was started anew and does not have the session's process. */
  lost(host: string): void {
    if (!this.#state || this.#state.run?.host !== host) return;
    const batch = this.#batch(this.#state);
    processLost(batch, `host ${host} was restarted`);
    this.#commit(batch);
  }

  /** The workspace cannot place the session. */
  unplaceable(reason: string): void {
    if (this.#state?.agent !== "starting") return;
    const batch = this.#batch(this.#state);
    unavailable(batch, reason);
    this.#commit(batch);
  }

  #hello(ws: WebSocket, state: SessionState, hello: HostHello): void {
    if (!isWelcome(state, hello.run)) return ws.close(4409, "superseded");
    for (const other of this.ctx.getWebSockets())
      if (other !== ws && linkOf(other)) other.close(4408, "replaced");
    const batch = this.#batch(state);
    hostHello(batch, hello);
    const { since, received } = state.run ?? { since: 0, received: 0 };
    ws.serializeAttachment({ run: hello.run, sent: Math.max(hello.delivered, since) } satisfies Link);
    ws.send(encodeLink({ t: "welcome", received }));
    this.#commit(batch);
  }

  #items(ws: WebSocket, state: SessionState, first: number, lines: string[]): void {
    const run = state.run;
    if (!run || linkOf(ws)?.run !== run.id) return ws.close(4409, "superseded");
    if (first > run.received + 1) return ws.close(4400, "items are missing");
    const batch = this.#batch(state);
    for (const line of lines.slice(run.received + 1 - first)) hostItem(batch, line);
    this.#commit(batch);
    ws.send(encodeLink({ t: "ack", received: first + lines.length - 1 }));
  }

  #link(): WebSocket | undefined {
    const run = this.#state?.run?.id;
    return this.ctx.getWebSockets().find((ws) => ws.readyState === WebSocket.OPEN && linkOf(ws)?.run === run);
  }

  // ---- time -------------------------------------------------------------------------------------------

  override async alarm(): Promise<void> {
    if (!this.#state) return;
    for (const name of this.#deadlines.due(Date.now())) {
      if (name === "index") await this.#writeIndex(this.#state);
      else this.#startTimedOut(this.#state);
    }
  }

  #startTimedOut(state: SessionState): void {
    if (state.agent !== "starting") return;
    const link = this.#link();
    const batch = this.#batch(state);
    unavailable(
      batch,
      link ? "The agent did not open the session in time" : "No host has started an agent in time",
    );
    this.#commit(batch);
    link?.send(encodeLink({ t: "stop", reason: "start timed out" }));
  }

  // ---- readers of the state and the log ---------------------------------------------------------------

  /** The projection as JSON text; null for an unknown session. */
  describe(caller: Caller): string | null {
    const state = this.#readable(caller);
    return state ? JSON.stringify(project(state)) : null;
  }

  /** A page of the log as NDJSON; null for an unknown session. */
  events(caller: Caller, after: number, maxEvents: number): EventsPage | null {
    const state = this.#readable(caller);
    return state ? this.#log.readEnvelopes(state.sessionId, after, LIMITS.deliverChars, maxEvents) : null;
  }

  #readable(caller: Caller): SessionState | undefined {
    return this.#state?.identity?.tenant === caller.tenant ? this.#state : undefined;
  }

  // ---- log first --------------------------------------------------------------------------------------

  #exists(): boolean {
    return this.ctx.storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'log'").toArray().length > 0;
  }

  #batch(state: SessionState): Batch {
    return new Batch(state, Date.now(), (seq) => this.#eventAt(seq));
  }

  #eventAt(seq: number): LogEvent | undefined {
    return this.#after(seq - 1, 0).find((event) => event.seq === seq);
  }

  /** Writes what was decided, then lets everyone read on. Output gates hold all of it until it is durable. */
  #commit(batch: Batch): void {
    const { state, events } = batch;
    if (events.length === 0) return;
    try {
      this.#log.append(events);
      this.#snapshots.save(state);
    } catch (error) {
      // The state has folded in what the log does not have: only a fresh start from the log is safe.
      this.ctx.abort("The log could not be written");
      throw error;
    }
    for (const event of events) this.#tail.push(event);
    this.#followUp(state, events);
    this.#feedAgent();
    this.#feedClients();
    this.#trimTail();
  }

  /** What events ask of others: a place for the agent, a line in the index. */
  #followUp(state: SessionState, events: readonly LogEvent[]): void {
    if (events.some(({ kind }) => kind === "session.requested" || kind === "runtime.reconnect_attempt")) {
      this.#deadlines.set("agent-start", Date.now() + LIMITS.agentStartMs);
      this.ctx.waitUntil(this.#place(state));
    }
    if (events.some(({ kind }) => INDEXED.has(kind)))
      this.#deadlines.setUnlessSet("index", Date.now() + LIMITS.indexDelayMs);
    if (events.some(({ kind }) => kind === "session.created")) this.ctx.waitUntil(this.#writeIndex(state));
    if (
      state.agent !== "starting" &&
      events.some(({ kind }) => kind === "session.created" || kind === "session.rebound")
    ) {
      this.#deadlines.clear("agent-start");
    }
  }

  async #place({ sessionId, identity }: SessionState): Promise<void> {
    if (!identity) return;
    const workspace = this.env.WORKSPACE_STATE_DO.getByName(`${identity.tenant}/${identity.workspace}`);
    try {
      const refused = await workspace.place(sessionId, identity.agent);
      if (refused) this.unplaceable(refused);
    } catch (error) {
      console.error("place failed", { sessionId, error: String(error) });
    }
  }

  async #writeIndex(state: SessionState): Promise<void> {
    const row = indexRow(state);
    if (!row) return;
    try {
      await writeIndex(this.env.INDEX, row);
    } catch (error) {
      console.error("index write failed", { sessionId: state.sessionId, error: String(error) });
      this.#deadlines.setUnlessSet("index", Date.now() + LIMITS.indexRetryMs);
    }
  }

  #feedAgent(): void {
    const ws = this.#link();
    const link = ws && linkOf(ws);
    if (!ws || !link) return;
    const read = this.#linkRead.run === link.run ? this.#linkRead.seq : 0;
    for (let seq = Math.max(link.sent, read); ; this.#linkRead = { run: link.run, seq }) {
      const events = this.#after(seq, LIMITS.linkBatchChars);
      const last = events.at(-1);
      if (!last) return;
      const lines = events.flatMap((event) => {
        const line = forAgent(event, (held) => this.#frameAt(held));
        return line === undefined ? [] : [`${event.seq} ${line}`];
      });
      seq = last.seq;
      if (lines.length === 0) continue;
      ws.send(encodeLink({ t: "lines" }, lines));
      ws.serializeAttachment({ run: link.run, sent: seq } satisfies Link);
    }
  }

  #feedClients(): void {
    for (const cursor of this.#clients.values()) void this.#feed(cursor);
  }

  async #feed(cursor: ClientCursor): Promise<void> {
    const state = this.#state;
    if (!state) return;
    const port = this.env.ACP_CONNECTION_DO.getByName(cursor.connection);
    try {
      const present = await cursor.pump(state.sessionId, port, this.#reader);
      if (!present && this.#clients.get(cursor.connection) === cursor) this.detach(cursor.connection);
    } catch (error) {
      console.warn("delivery interrupted", {
        sessionId: state.sessionId,
        connection: cursor.connection,
        error: String(error),
      });
    }
  }

  readonly #reader: Reader = {
    after: (seq, maxChars) => this.#after(seq, maxChars),
    openRequests: (upTo) =>
      Object.entries(this.#state?.asking ?? {})
        .filter(([seq, asking]) => asking.by === "client" && Number(seq) <= upTo)
        .flatMap(([seq]) => this.#eventAt(Number(seq)) ?? []),
  };

  #frameAt(seq: number): FrameEvent | undefined {
    const event = this.#eventAt(seq);
    return event && isFrame(event) ? event : undefined;
  }

  /** Events after `seq`, from memory when they are there. */
  #after(seq: number, maxChars: number): LogEvent[] {
    const first = this.#tail[0]?.seq;
    if (first === undefined || seq + 1 < first)
      return seq < (this.#state?.lastSeq ?? 0) ? this.#log.read(seq, maxChars) : [];
    const page: LogEvent[] = [];
    for (let chars = 0, i = seq + 1 - first; i < this.#tail.length; i += 1) {
      const event = this.#tail[i] as LogEvent;
      chars += weight(event);
      if (page.length > 0 && chars > maxChars) break;
      page.push(event);
    }
    return page;
  }

  /** Keeps what some reader is about to read, within bounds; who is further behind reads from storage. */
  #trimTail(): void {
    const wanted = Math.min(
      ...[...this.#clients.values()].map((cursor) => cursor.position ?? Number.POSITIVE_INFINITY),
    );
    let keep = this.#tail.length;
    for (let chars = 0; keep > 0; keep -= 1) {
      const event = this.#tail[keep - 1] as LogEvent;
      chars += weight(event);
      if (event.seq <= wanted || chars > LIMITS.tailChars) break;
    }
    if (keep > 0) this.#tail = this.#tail.slice(keep);
  }
}

type ClientRow = { connection: string; attach: number; start: number };
const CLIENT_SCHEMA = `
  -- Who reads along: since which request, from where, and the number of its last frame.
  CREATE TABLE client (connection TEXT PRIMARY KEY, attach INTEGER NOT NULL, start INTEGER NOT NULL, received INTEGER NOT NULL);
`;

/** What the object remembers of a host's socket: its process, and how far the log went down this socket. */
type Link = { run: string; sent: number };

function linkOf(ws: WebSocket): Link | undefined {
  return (ws.deserializeAttachment() as Link | null) ?? undefined;
}

const HELLO = z.object({
  t: z.literal("hello"),
  run: z.string().min(1).max(100),
  agent: z.string(),
  host: z.string(),
  root: z.string(),
  delivered: z.number().int().min(0),
});
type HostHello = z.infer<typeof HELLO>;
const HOST_HEAD = z.union([HELLO, z.object({ t: z.literal("lines"), first: z.number().int().min(1) })]);

/** Events that change a session's line in the index. The deadline set with them is the outbox: it outlives a crash. */
const INDEXED: ReadonlySet<string> = new Set([
  "session.requested",
  "session.created",
  "session.rebound",
  "turn.started",
  "turn.completed",
  "turn.cancelled",
  "turn.failed",
  "queue.owner.stopped",
  "error",
]);

function weight(event: LogEvent): number {
  return isFrame(event) ? event.frame.raw.length : 200;
}

/** Connections send on only what they have read as a frame themselves. */
function ownFrame(raw: string): Frame {
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error("Not a frame");
  return frame;
}
