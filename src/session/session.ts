import { DurableObject } from "cloudflare:workers";
import { objectName, sessionObject, workspaceObject } from "../objects.ts";
import { type Caller, isHost, isReader, mayUseWorkspace, roleOf } from "../protocol/caller.ts";
import { answerClose } from "../protocol/close.ts";
import { ErrorCode } from "../protocol/errors.ts";
import { type Frame, isFault, readFrame } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";
import { decodeLink, encodeLink } from "../protocol/link.ts";
import type { Hears } from "../protocol/news.ts";
import type { PermissionPolicy } from "../protocol/policy.ts";
import { type Act, audit } from "../tenant/audit.ts";
import { endSocket, type Holder, passFor, passTags } from "../tenant/pass.ts";
import type { HostWord } from "../workspace/words.ts";
import { Access } from "./access.ts";
import { currentSetup } from "./acp-state.ts";
import {
  close,
  drain,
  hostAbsent,
  hostGone,
  idleCheck,
  isUnopened,
  processLost,
  unavailable,
  wishLost,
} from "./agent-life.ts";
import {
  choosePermission,
  openToClients,
  optionsIn,
  type PermissionChoice,
  type PermissionOption,
} from "./answers.ts";
import { Archive } from "./archive.ts";
import type { Batch } from "./batch.ts";
import { anticipate, clientFrame, open, relayed } from "./client-input.ts";
import { ioClientGone } from "./client-io.ts";
import { CLIENT_SCHEMA, Clients } from "./clients.ts";
import { DEADLINE_SCHEMA, Deadlines } from "./deadlines.ts";
import { isFrame, type LogEvent, newId } from "./event.ts";
import { Hidden } from "./hidden.ts";
import { hostHello, hostItem, isWelcome } from "./host-input.ts";
import { type HostHello, HostLink, readHead } from "./host-link.ts";
import { IndexWriter } from "./index-writer.ts";
import { Journal } from "./journal.ts";
import { expirePermissions, nextTimeout, setPolicy } from "./policy.ts";
import { presenceOf } from "./presence.ts";
import { project } from "./projection.ts";
import { attachment } from "./replay.ts";
import type { SessionState } from "./state.ts";
import { copyLog, type Forked, type ForkOrder } from "./transfer/fork.ts";
import { isStaged, SessionImport } from "./transfer/import.ts";
import { type ImportOrder, imported } from "./transfer/imported.ts";
import { type SegmentCursor, type SegmentPage, segmentPage } from "./transfer/segments.ts";
import { dropQueued } from "./turns.ts";
import { Watchers } from "./watchers.ts";

export type OpenRequest = {
  sessionId: string;
  connection: string;
  caller: Caller;
  workspace: string;
  agent: string;
  /** The session/new; null if it is only to be expected. */
  raw: string | null;
  hears: Hears;
};
/** Frames of one client with their numbers, which grow, so that one that comes again is noticed. */
export type ClientFrames = {
  connection: string;
  caller: Caller;
  numbers: number[];
  frames: string[];
  hears: Hears;
};
/** A live reader, from the event after `after` on. */
export type WatchRequest = { caller: Caller; after: number };
/** `gone` says why there is nothing where there was something once. */
export type EventsPage = { text: string; last: number; count: number; gone?: string };

/**
 * One session: the log, and everyone who reads it.
 *
 * Every input becomes events, the events are written, and only then do the readers (the agent's link and
 * each client's cursor) go on. Everything in memory is rebuilt from storage and socket attachments.
 */
export class AcpSession extends DurableObject<Env> {
  readonly #journal: Journal;
  readonly #archive: Archive;
  readonly #clients: Clients;
  readonly #hidden: Hidden;
  readonly #link: HostLink;
  readonly #watchers: Watchers;
  readonly #access: Access;
  readonly #deadlines: Deadlines<
    "place" | "agent-start" | "idle" | "permission" | "archive" | "index" | "release" | "host-token"
  >;
  readonly #index: IndexWriter;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    this.#journal = new Journal(sql);
    this.#archive = new Archive(env.ARCHIVE, this.#journal);
    this.#clients = new Clients(
      sql,
      this.#journal,
      this.#archive,
      (connection) => env.ACP_CONNECTION_DO.getByName(connection),
      (connection) => this.#record((batch) => ioClientGone(batch, connection)),
    );
    this.#hidden = new Hidden(sql);
    this.#link = new HostLink(ctx, this.#journal, this.#hidden);
    this.#watchers = new Watchers(ctx, this.#journal, this.#archive);
    this.#deadlines = new Deadlines(ctx.storage);
    this.#access = new Access(ctx, env);
    this.#index = new IndexWriter(
      env.INDEX,
      (state) => this.#journal.state === state && !this.#access.isRevoked,
      () => this.#deadlines.setUnlessSet("index", Date.now() + LIMITS.indexRetryMs),
    );
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    // What an import has left that a crash ended.
    if (isStaged(sql)) void ctx.blockConcurrencyWhile(() => ctx.storage.deleteAll());
    if (!this.#journal.catchUp()) void ctx.blockConcurrencyWhile(() => this.#replayArchive());
  }

  /** There is no snapshot to start from, and the log's beginning is in the archive. */
  async #replayArchive(): Promise<void> {
    while (!this.#journal.catchUp()) await this.#archive.reach(this.#journal.state?.lastSeq ?? 0);
  }

  // ---- clients ----------------------------------------------------------------------------------------

  /** Makes the session for the client that asked for it, or will do so when it has logged in. */
  open({ sessionId, connection, caller, workspace, agent, raw, hears }: OpenRequest): void {
    const { state } = this.#journal;
    if (state && !isUnopened(state)) return;
    if (!mayWork(caller, workspace)) throw new Error("Not this caller's to open");
    if (!state) {
      this.#journal.create(sessionId);
      this.ctx.storage.sql.exec(DEADLINE_SCHEMA + CLIENT_SCHEMA);
      const reading = { attach: 0, start: 0, merge: false, offers: [] };
      const params = raw === null ? undefined : ownFrame(raw).value.params;
      this.#clients.attach(connection, reading, presenceOf(caller, Date.now(), hears, params));
    }
    const owner = { tenant: caller.tenant, owner: caller.subject, workspace, agent };
    this.#record((batch) => {
      if (raw === null) anticipate(batch, owner);
      else open(batch, connection, this.#hidden.conceal(ownFrame(raw)), owner);
    });
  }

  /** Whether the client that asked for it can open it now: it has not yet, or the agent has refused. */
  awaitsOpening(connection: string, agent: string): boolean {
    const { state } = this.#journal;
    const isSame = agent === "" || state?.identity?.agent === agent;
    return state !== undefined && isSame && this.#clients.has(connection) && isUnopened(state);
  }

  /**
   * Makes this session a copy of another, up to the event `at` or to its end, and attaches the client that
   * asked. Null: there is no such session for it.
   */
  async fork(order: ForkOrder): Promise<Forked | null> {
    const { sessionId, from, connection, caller, opening, hears } = order;
    const source = sessionObject(this.env, caller.tenant, from);
    const origin = await source.origin(caller);
    if (!origin || !mayWork(caller, origin.workspace)) return null;
    const { workspace, agent, lastSeq } = origin;
    const at = order.at ?? lastSeq;
    if (at > lastSeq) return { refused: `The session's last event is ${lastSeq}` };
    const fork = {
      format: "fork",
      recordId: from,
      copy: { originSeq: lastSeq },
      opening,
      cwd: null,
    } as const;
    const target = this.import({ ...fork, sessionId, caller, workspace, agent, defaultAgent: agent });
    if (!target) throw new Error("There is a session here");
    await copyLog(source, caller, at, target);
    const state = this.#journal.state as SessionState;
    const attach = state.lastSeq;
    const reading = { attach, start: attach, merge: false, offers: [] };
    const presence = presenceOf(caller, Date.now(), hears, JSON.parse(opening));
    this.#clients.attach(connection, reading, presence);
    return { attach, setup: JSON.stringify(currentSetup(state.acp)) };
  }

  /** What a fork has to know beforehand. */
  origin(caller: Caller): { workspace: string; agent: string; lastSeq: number } | null {
    const { identity, lastSeq } = this.#readable(caller) ?? {};
    return identity && lastSeq ? { workspace: identity.workspace, agent: identity.agent, lastSeq } : null;
  }

  /** False: there is no such session for this caller. */
  receive({ connection, caller, numbers, frames, hears }: ClientFrames): boolean {
    if (!this.#readable(caller)) return false;
    const known = this.#clients.lastReceived(connection);
    const fresh = frames
      .filter((_, i) => (numbers[i] as number) > known)
      .map((raw) => this.#hidden.conceal(ownFrame(raw)));
    if (fresh.length === 0) return true;
    this.#record((batch) => {
      for (const frame of fresh) {
        const attached = this.#clients.has(connection);
        const reading = attachment(frame, batch.nextSeq, attached, openToClients(batch.state));
        const presence = presenceOf(caller, batch.at, hears, frame.value.params);
        if (reading) this.#clients.attach(connection, reading, presence);
        const answering = this.#clients.answering();
        clientFrame(batch, { connection, caller, answering }, frame, () => newId("turn"));
      }
      this.#clients.received(connection, numbers.at(-1) as number);
    });
    return true;
  }

  /** Answers a permission request of the agent in place of a client; `by` is the connection, or what else asks. */
  answerPermission(
    caller: Caller,
    seq: number,
    choice: PermissionChoice,
    by: string,
  ): "answered" | "unknown" | "no-option" {
    if (!this.#readable(caller)?.asking[seq]?.permission) return "unknown";
    if (!caller.scopes.includes("permission:answer")) return "unknown";
    let result: "answered" | "unknown" | "no-option" = "unknown";
    this.#record((batch) => {
      result = choosePermission(batch, seq, choice, { by, subject: caller.subject, why: "answered" });
    });
    return result;
  }

  /** What may be answered to a permission request; null when it is not open. */
  permissionOptions(caller: Caller, seq: number): PermissionOption[] | null {
    if (!this.#readable(caller)?.asking[seq]?.permission) return null;
    return optionsIn(this.#journal.frameAt(seq)?.frame.value.params);
  }

  /** Takes a waiting prompt out of the queue; false if it does not wait. */
  unqueue(caller: Caller, turnId: string): boolean {
    const queued = this.#readable(caller)?.queue.find((item) => item.turnId === turnId);
    if (!queued || roleOf(caller) !== "controller") return false;
    const error = { code: ErrorCode.requestCancelled, message: "Taken out of the queue" };
    this.#record((batch) => dropQueued(batch, queued, error));
    return true;
  }

  /** Ends the work in place of a client, and the process with it; the history stays. False: there is none to end. */
  close(caller: Caller, by: string): boolean {
    const state = this.#readable(caller);
    if (!state || state.closed || roleOf(caller) !== "controller") return false;
    this.#record((batch) => close(batch, by));
    return true;
  }

  /** Ends the session for good: process, history and its line in the index. */
  async delete(caller: Caller): Promise<boolean> {
    const state = this.#readable(caller);
    if (!state || roleOf(caller) !== "controller") return false;
    await this.#remove(state);
    this.#note(state, { kind: "session.deleted", subject: caller.subject });
    return true;
  }

  async #remove(state: SessionState): Promise<void> {
    const { sessionId } = state;
    this.#link.stop("deleted");
    this.#watchers.dismiss("deleted");
    await this.#archive.delete();
    this.#journal.forget();
    this.#clients.forget();
    await this.ctx.storage.deleteAll();
    await this.#index.remove(state);
    await this.#workspaceOf(state)?.release(sessionId, state.lastSeq);
  }

  /** A client whose reading rested can go on, from where its connection says. */
  ready(connection: string): void {
    this.#clients.ready(connection);
  }

  /** A dropped client decides nothing: its turn goes on, its permissions stay open. */
  async detach(connection: string): Promise<void> {
    const { state } = this.#journal;
    if (!state) return;
    this.#clients.detach(connection);
    // Nobody else has ever heard of a session that was not opened.
    if (state.identity?.request === null && this.#clients.present().length === 0) await this.#remove(state);
    else this.#record((batch) => ioClientGone(batch, connection));
  }

  /** Detaches a client for which there is nothing more to come; false if there may be. */
  letsGo(connection: string): boolean {
    const { state } = this.#journal;
    if (!state) return true;
    if (!state.closed || !this.#clients.hasRead(connection, state.lastSeq)) return false;
    this.#clients.detach(connection);
    return true;
  }

  /** A login, or a logout, that the agent of another session has taken. */
  relay(caller: Caller, raw: string): void {
    if (this.#readable(caller) && roleOf(caller) === "controller")
      this.#record((batch) => relayed(batch, ownFrame(raw)));
  }

  // ---- the host ---------------------------------------------------------------------------------------

  /** The host's socket for this session. The Worker has checked the token; whose host it is is checked here. */
  override async fetch(request: Request): Promise<Response> {
    const watch = request.headers.get("X-Acp-Watch");
    if (watch !== null) return this.#watch(JSON.parse(watch) as WatchRequest);
    const host = JSON.parse(request.headers.get("X-Acp-Host") ?? "null") as Caller | null;
    if (!host || !this.#isServedBy(host)) return new Response("Unknown session", { status: 404 });
    const pass = passFor(host, "host", this.#holder(host));
    const socket = this.#link.accept(passTags(pass));
    this.#access.admit(pass);
    this.#checkHostTokens();
    return new Response(null, { status: 101, webSocket: socket });
  }

  override webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): void | Promise<void> {
    const state = this.#journal.state;
    if (!state || typeof message !== "string") return;
    if (this.#watchers.isWatcher(ws)) return this.#watchers.next(ws);
    const { head, lines } = decodeLink(message);
    const checked = readHead(head);
    if (!checked) return ws.close(4400, "unknown message");
    if (checked.t === "hello") this.#hello(ws, state, checked);
    else this.#items(ws, state, checked.first, lines);
  }

  override webSocketClose(ws: WebSocket, code: number, reason: string): void {
    answerClose(ws, code, reason);
    this.#closed(ws, reason || `socket closed (${code})`);
  }

  /** After this there is no close. */
  override webSocketError(ws: WebSocket): void {
    this.#closed(ws, "socket broken");
  }

  #closed(ws: WebSocket, reason: string): void {
    this.#access.left(ws);
    const run = this.#link.runOf(ws);
    if (run === undefined || this.#journal.state?.run?.id !== run || this.#link.socket()) return;
    this.#record((batch) => hostGone(batch, reason));
  }

  /** The workspace learnt that the host is gone, or was started anew and does not have the session's process. */
  lost(word: HostWord): void {
    if (!this.#isMeant(word)) return;
    const { host, reason } = word;
    this.#record((batch) => (batch.state.run?.host === host ? processLost : wishLost)(batch, reason));
    this.#link.dismiss("superseded");
  }

  /** The host has been away for long, but the session has no other place to go. */
  absent(word: HostWord): void {
    if (!this.#isMeant(word)) return;
    this.#record((batch) => hostAbsent(batch, word.host, word.reason));
    this.#link.hangUp();
  }

  /** The host wants to leave. */
  drain(word: HostWord): void {
    if (this.#isMeant(word)) this.#record((batch) => drain(batch, word.host));
  }

  /** What the workspace says may come late, or twice. Before there were wishes, the host alone had to do. */
  #isMeant({ wish, host }: HostWord): boolean {
    const { state } = this.#journal;
    return state !== undefined && (wish === 0 ? state.run?.host === host : state.wish === wish);
  }

  /** When the agent last had something to do; null while it has. */
  lastActive(): number | null {
    const { state } = this.#journal;
    if (!state) return 0;
    const isBusy = state.agent === "starting" || state.turn !== null || state.queue.length > 0;
    return isBusy ? null : state.activeAt;
  }

  /** The workspace's policy has changed. */
  policy(policy: PermissionPolicy): void {
    if (this.#journal.state) this.#record((batch) => setPolicy(batch, policy));
  }

  #hello(ws: WebSocket, state: SessionState, hello: HostHello): void {
    if (!isWelcome(state, hello)) return ws.close(4409, "superseded");
    this.#record((batch) => {
      hostHello(batch, hello);
      const { since, received } = state.run ?? { since: 0, received: 0 };
      this.#link.adopt(ws, hello.run, Math.max(hello.delivered, since));
      ws.send(encodeLink({ t: "welcome", received }));
    });
    if (state.run?.stopping) this.#link.stop("no longer needed");
  }

  #items(ws: WebSocket, state: SessionState, first: number, lines: string[]): void {
    const { run } = state;
    if (!run || this.#link.runOf(ws) !== run.id) return ws.close(4409, "superseded");
    const repeated = run.received + 1 - first;
    if (repeated < 0) return ws.close(4400, "items are missing");
    this.#record((batch) => {
      const clients = () => this.#clients.serving();
      for (const line of lines.slice(repeated)) hostItem(batch, line, clients);
    });
    ws.send(encodeLink({ t: "ack", received: first + lines.length - 1 }));
  }

  // ---- time -------------------------------------------------------------------------------------------

  override async alarm(): Promise<void> {
    const { state } = this.#journal;
    if (!state) return;
    for (const name of this.#deadlines.due(Date.now())) {
      switch (name) {
        case "place":
          await this.#place(state);
          break;
        case "agent-start":
          await this.#startTimedOut(state);
          break;
        case "idle":
          this.#record((batch) => idleCheck(batch));
          break;
        case "permission":
          this.#permissionsTimedOut(state);
          break;
        case "host-token":
          this.#checkHostTokens();
          break;
        case "archive":
          await this.#archive.run(state, (decide) => this.#record(decide));
          break;
        case "index":
          await this.#index.write(state);
          break;
        case "release":
          await this.#release(state);
      }
    }
  }

  async #startTimedOut(state: SessionState): Promise<void> {
    const { agent, run, identity, wish } = state;
    // A client that has only logged in may take its time.
    if (agent !== "starting" || (run?.initialized && identity?.request === null)) return;
    const reason = this.#link.socket()
      ? "The agent did not open the session in time"
      : await this.#missingHost(state);
    if (this.#journal.state?.agent !== "starting" || state.wish !== wish) return;
    this.#link.stop(reason);
    this.#record((batch) => unavailable(batch, reason));
  }

  async #missingHost(state: SessionState): Promise<string> {
    const reason = "No host has started an agent in time";
    try {
      const waitsFor = await this.#workspaceOf(state)?.explain(state.sessionId);
      return waitsFor ? `${reason}: waited for ${waitsFor}` : reason;
    } catch (error) {
      console.error("explain failed", { sessionId: state.sessionId, error: String(error) });
      return reason;
    }
  }

  /** The workspace need not keep a place for a session that has no process and wants none. */
  async #release(state: SessionState): Promise<void> {
    if (state.run || state.agent === "starting") return;
    try {
      await this.#workspaceOf(state)?.release(state.sessionId, state.wish);
    } catch (error) {
      console.error("release failed", { sessionId: state.sessionId, error: String(error) });
      this.#deadlines.setUnlessSet("release", Date.now() + LIMITS.wordRetryMs);
    }
  }

  #permissionsTimedOut(state: SessionState): void {
    this.#record((batch) => expirePermissions(batch));
    const next = nextTimeout(state);
    if (next !== null) this.#deadlines.set("permission", next);
  }

  /** A host comes back with a newer token; the process at the other end does not notice. */
  #checkHostTokens(): void {
    const next = this.#access.endExpired(this.#link.sockets());
    if (next !== null) this.#deadlines.set("host-token", next);
  }

  // ---- readers of the state and the log ---------------------------------------------------------------

  /** The projection with who is attached and how the files are, as JSON text; null for an unknown session. */
  async view(caller: Caller): Promise<string | null> {
    if (!this.#readable(caller)) return null;
    const workspaceState = await this.#workspaceState();
    const state = this.#readable(caller);
    return state
      ? JSON.stringify({ ...project(state), clients: this.#clients.present(), workspaceState })
      : null;
  }

  /** Asked when someone looks: files change without the session's doing. */
  async #workspaceState(): Promise<{ currentBranch?: string; modifiedFiles?: string[] } | null> {
    const { state } = this.#journal;
    if (!state?.home) return null;
    try {
      const git = await this.#workspaceOf(state)?.gitFor(state.home);
      if (!git) return null;
      const { branch, modifiedFiles } = git;
      return branch === null ? { modifiedFiles } : { currentBranch: branch, modifiedFiles };
    } catch (error) {
      console.error("workspace state unknown", { sessionId: state.sessionId, error: String(error) });
      return null;
    }
  }

  /** The projection as JSON text; null for an unknown session. */
  describe(caller: Caller): string | null {
    const state = this.#readable(caller);
    return state ? JSON.stringify(project(state)) : null;
  }

  /** A page of the log as NDJSON; null for an unknown session. */
  async events(caller: Caller, after: number, maxEvents: number): Promise<EventsPage | null> {
    const state = this.#readable(caller);
    if (!state) return null;
    const gone = await this.#archive.missing(after);
    if (gone !== undefined) return { text: "", last: after, count: 0, gone };
    return this.#journal.log.readEnvelopes(state.sessionId, after, LIMITS.deliverChars, maxEvents);
  }

  /** A piece of a segment file of the log; null for an unknown session. */
  async segment(caller: Caller, cursor: SegmentCursor, upTo: number): Promise<SegmentPage | null> {
    const state = this.#readable(caller);
    if (!state) return null;
    await this.#archive.reach(cursor.after);
    const envelopes = this.#journal.log.envelopes(state.sessionId, cursor.after);
    return segmentPage(envelopes, cursor, upTo, LIMITS.deliverChars);
  }

  #watch({ caller, after }: WatchRequest): Response {
    if (!this.#readable(caller)) return new Response("Unknown session", { status: 404 });
    const pass = passFor(caller, "watcher", this.#holder(caller));
    const response = this.#watchers.accept(after, passTags(pass));
    if (response.webSocket) this.#access.admit(pass);
    return response;
  }

  // ---- access -----------------------------------------------------------------------------------------

  /** Ends everybody's access to the session, and what they have open; the work goes on. False: there is none. */
  async revoke(caller: Caller): Promise<boolean> {
    const { state } = this.#journal;
    if (!state || !this.#isIn(caller)) return false;
    this.#access.revoke();
    this.#watchers.dismiss("session revoked");
    const connections = this.#clients.present().map(({ connection }) => connection);
    for (const connection of connections) this.#clients.detach(connection);
    await Promise.all([
      ...connections.map((id) => this.env.ACP_CONNECTION_DO.getByName(id).endSocket(id, "session revoked")),
      this.#index.remove(state),
    ]);
    return true;
  }

  /** Gives it back. */
  async restore({ tenant }: Pick<Caller, "tenant">): Promise<boolean> {
    const { state } = this.#journal;
    if (state?.identity?.tenant !== tenant) return false;
    this.#access.restore();
    await this.#index.write(state);
    return true;
  }

  /** The token of a socket here was revoked. */
  endSocket(id: string, reason: string): void {
    endSocket(this.ctx, id, reason);
  }

  /** A client goes on with another token. */
  renewed(connection: string, caller: Caller): void {
    if (!this.#journal.state || !this.#clients.has(connection)) return;
    if (this.#readable(caller)) this.#clients.renewed(connection, caller);
    else this.#clients.detach(connection);
  }

  #holder({ tenant }: Caller): Holder {
    return { class: "session", name: objectName(tenant, this.#journal.state?.sessionId ?? "") };
  }

  /** Takes in a session from elsewhere; null when there is one here. The caller must dispose of it. */
  import(order: ImportOrder): SessionImport | null {
    if (this.#journal.state || isStaged(this.ctx.storage.sql)) return null;
    if (!mayWork(order.caller, order.workspace)) throw new Error("Not this caller's to import");
    return new SessionImport(this.ctx.storage, order, (state, opening) => {
      this.#journal.adopt(state);
      this.ctx.storage.sql.exec(DEADLINE_SCHEMA + CLIENT_SCHEMA);
      const conceal = (frame: Frame) => this.#hidden.conceal(frame);
      this.#record((batch) => imported(batch, order, opening, conceal));
    });
  }

  #readable(caller: Caller): SessionState | undefined {
    if (!isReader(caller) || !this.#isIn(caller)) return undefined;
    const isShut = this.#access.isRevoked && !caller.scopes.includes("workspace:admin");
    return isShut ? undefined : this.#journal.state;
  }

  #isServedBy(host: Caller): boolean {
    return isHost(host) && this.#isIn(host);
  }

  /** Whether there is a session here, in a workspace of the caller's; for who came by a link, the one it is for. */
  #isIn(caller: Caller): boolean {
    const { identity, sessionId } = this.#journal.state ?? {};
    if (caller.session !== undefined && caller.session !== sessionId) return false;
    return identity?.tenant === caller.tenant && mayUseWorkspace(caller, identity.workspace);
  }

  // ---- log first --------------------------------------------------------------------------------------

  /** Writes what is decided, then lets everyone read on. Output gates hold all of it until it is durable. */
  #record(decide: (batch: Batch) => void): void {
    let events: readonly LogEvent[];
    try {
      events = this.#journal.record(decide);
    } catch (error) {
      // Memory is ahead of the log: only a fresh start from storage is safe.
      console.error("session failed", { error: String(error) });
      this.ctx.abort("The session could not record what happened");
      throw error;
    }
    if (events.length === 0) return;
    this.#followUp(events);
    this.#link.feed();
    this.#clients.feed();
    this.#watchers.feed();
    this.#journal.trim(this.#clients.slowest());
  }

  /** What events ask of others: a place for the agent, a line in the index. */
  #followUp(events: readonly LogEvent[]): void {
    const { state } = this.#journal;
    if (!state) return;
    const kinds = new Set(events.map((event) => event.kind));
    for (const event of events) {
      if (event.kind === "session.anticipated") {
        this.#seekPlace(state, event);
        this.#deadlines.setUnlessSet("idle", Date.now() + LIMITS.idleMs);
      }
      if (event.kind === "session.requested" || event.kind === "runtime.reconnect_attempt")
        this.#seekPlace(state, event);
      if (event.kind === "agent.login") this.ctx.waitUntil(this.#relay(state, event));
      if (event.kind === "queue.owner.lease_renewed") this.#deadlines.set("idle", numberIn(event, "until"));
    }
    if (READY.some((kind) => kinds.has(kind)) && state.agent === "ready") {
      this.#deadlines.clear("agent-start");
      this.#deadlines.setUnlessSet("idle", Date.now() + LIMITS.idleMs);
    }
    if (kinds.has("permission.responded")) {
      for (const event of events) if (event.kind === "permission.responded") this.#noteAnswer(state, event);
    }
    if (kinds.has("queue.owner.idle_expired")) this.#link.stop("idle");
    if (kinds.has("session.closed")) this.#link.stop("closed");
    if (kinds.has("queue.owner.drained")) this.#link.stop("the host is being drained");
    if (ENDINGS.some((kind) => kinds.has(kind)) && !state.run && state.agent !== "starting")
      this.#deadlines.set("release", Date.now());
    if (kinds.has("permission.requested") || kinds.has("permission.policy")) {
      const at = nextTimeout(state);
      if (at !== null) this.#deadlines.set("permission", at);
    }
    if (this.#archive.wanted(state)) this.#deadlines.setUnlessSet("archive", Date.now());
    // The deadline is the outbox: it outlives a crash.
    if (this.#index.isDue(kinds)) this.#deadlines.setUnlessSet("index", Date.now() + LIMITS.indexDelayMs);
    if (this.#index.isUrgent(state, kinds)) this.ctx.waitUntil(this.#index.write(state));
  }

  /** What a person has answered; the workspace's policy is no person. */
  #noteAnswer(state: SessionState, event: LogEvent): void {
    const { request, outcome, subject } = "payload" in event ? event.payload : {};
    if (typeof subject !== "string") return;
    const detail = { request: Number(request), outcome: JSON.stringify(outcome) };
    this.#note(state, { kind: "permission.answered", subject, detail });
  }

  #note({ identity, sessionId }: SessionState, act: Act): void {
    if (!identity) return;
    const { tenant, workspace } = identity;
    this.ctx.waitUntil(audit(this.env, tenant, { ...act, workspace, session: sessionId }));
  }

  #seekPlace(state: SessionState, event: LogEvent): void {
    const delayMs = numberIn(event, "delayMs");
    this.#deadlines.set("agent-start", Date.now() + delayMs + LIMITS.agentStartMs);
    // The process is there or on its way, and only asked to open a session.
    if (event.seq !== state.wish) return;
    if (delayMs > 0) this.#deadlines.set("place", Date.now() + delayMs);
    else this.ctx.waitUntil(this.#place(state));
  }

  async #relay({ sessionId }: SessionState, event: LogEvent): Promise<void> {
    if (isFrame(event)) return;
    const { request, connection } = event.payload as { request: number; connection: string };
    const raw = this.#journal.frameAt(request)?.frame.raw;
    try {
      if (raw !== undefined) await this.env.ACP_CONNECTION_DO.getByName(connection).relay(sessionId, raw);
    } catch (error) {
      // The other agents ask for a login themselves when they need one.
      console.warn("login not relayed", { sessionId, error: String(error) });
    }
  }

  #workspaceOf({ identity }: SessionState) {
    if (!identity) return undefined;
    return workspaceObject(this.env, identity.tenant, identity.workspace);
  }

  async #place(state: SessionState): Promise<void> {
    const { sessionId, identity, wish, home } = state;
    const workspace = this.#workspaceOf(state);
    if (!identity || !workspace) return;
    const { tenant, workspace: name, agent } = identity;
    try {
      const order = { tenant, workspace: name, sessionId, agent, wish, home };
      const { refused, policy } = await workspace.place(order);
      if (!this.#journal.state) return;
      this.#record((batch) => {
        setPolicy(batch, policy);
        if (refused !== null) unavailable(batch, refused);
      });
    } catch (error) {
      // The deadline for the start is set: should nobody hear of the wish, the client hears of that.
      console.error("place failed", { sessionId, error: String(error) });
    }
  }
}

function mayWork(caller: Caller, workspace: string): boolean {
  return roleOf(caller) === "controller" && mayUseWorkspace(caller, workspace);
}

/** Events after which a session may have no process and want none. */
const ENDINGS = ["queue.owner.stopped", "session.closed", "error"];

const READY = ["session.created", "session.rebound", "session.loaded"];

function numberIn(event: LogEvent, key: string): number {
  const value = "payload" in event ? event.payload[key] : undefined;
  return typeof value === "number" ? value : 0;
}

/** Connections send on only what they have read as a frame themselves. */
function ownFrame(raw: string): Frame {
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error("Not a frame");
  return frame;
}
