import { closeUnreadable, socketKind } from "../durable/attachments.ts";
import { within } from "../durable/within.ts";
import type { Caller } from "../protocol/caller.ts";
import { clipMessage } from "../protocol/clipped-text.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import type { Frame } from "../protocol/frame.ts";
import type { PermissionPolicy } from "../protocol/permission-policy.ts";
import { accepted, type Result, refused, unknownSession } from "../protocol/refusal.ts";
import type {
  EventsPage,
  ImportOrder,
  LeaveOrder,
  Left,
  OpenRequest,
  RevokedSession,
  SegmentCursor,
  SegmentPage,
  SessionOrigin,
} from "../protocol/rpc.ts";
import type { WebhookMessageType } from "../protocol/webhook-messages.ts";
import { ClientIntake } from "./client-intake.ts";
import { isUnopened } from "./core/decide/agent-process.ts";
import type { Batch } from "./core/decide/batch.ts";
import { ioClientGone } from "./core/decide/client-files.ts";
import { takeOverImport } from "./core/decide/import-events.ts";
import { setPolicy } from "./core/decide/policy.ts";
import { idleMsOf } from "./core/decide/process-end.ts";
import type { LogEvent } from "./core/events/event.ts";
import { containerEntity } from "./core/read/container-entity.ts";
import { lastActiveAt } from "./core/read/last-active-at.ts";
import { project } from "./core/read/projection.ts";
import { sessionFor } from "./core/read/redaction/redaction.ts";
import { originOf } from "./core/read/session-origin.ts";
import type { SessionState } from "./core/state/state.ts";
import { DeletionNotice } from "./deletion-notice.ts";
import { Effects } from "./effects.ts";
import { HostIntake } from "./host-intake.ts";
import { HistoryGone } from "./log/history-gone.ts";
import type { Recorder } from "./log/journal.ts";
import { LoginIntake } from "./login-intake.ts";
import { ProcessRequests } from "./outbox/process-requests.ts";
import { PersonIntake } from "./person-intake.ts";
import { WatcherSockets } from "./readers/watcher-sockets.ts";
import { Rest } from "./rest.ts";
import { loadParts, type SessionContext, type SessionParts } from "./session-parts.ts";
import { EFFECTS_RETRY_MS, timerHandlers } from "./timers.ts";
import { segmentPage } from "./transfer/object/segments.ts";
import type { ImportedLog } from "./transfer/object/session-import.ts";

/**
 * A session loaded into memory. Every input is turned into events; the events are written to the log; then the log's
 * readers (host link, client cursors, watchers) advance. All of it is rebuilt from storage and socket attachments.
 */
export class LoadedSession {
  /** Settles when the state equals the log, which must precede any other use. Undefined: the state does already. */
  readonly ready: Promise<void> | undefined;
  readonly clients: ClientIntake;
  readonly people: PersonIntake;
  readonly logins: LoginIntake;
  readonly host: HostIntake;
  readonly watching: WatcherSockets;
  readonly #context: SessionContext;
  readonly #parts: SessionParts;
  readonly #processes: ProcessRequests;
  readonly #rest: Rest;
  readonly #effects: Effects;
  readonly #deletionNotice: DeletionNotice;
  #isDeleted = false;
  /** The events whose effects wait for the end of the transaction that makes the session. */
  #withheld: LogEvent[] | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
    const record: Recorder = (decide, committed) => this.#record(decide, committed);
    this.#parts = loadParts(context, (connection) => this.#clientGone(connection), record);
    this.#processes = new ProcessRequests(context, this.#parts, record);
    this.#rest = new Rest(this.#parts, context.limits, record);
    this.#effects = new Effects(context, this.#parts, this.#processes, this.#rest);
    this.#deletionNotice = new DeletionNotice(record, context.limits);
    this.logins = new LoginIntake(this.#parts, record);
    this.clients = new ClientIntake(context, this.#parts, record, this.logins);
    this.people = new PersonIntake(this.#parts, record);
    this.host = new HostIntake(context, this.#parts, this.#processes, record);
    this.watching = new WatcherSockets(context, this.#parts);
    if (!this.#parts.journal.catchUp()) this.ready = this.#parts.archive.replay();
  }

  /** A deleted session stays deleted; the object may hold another one later. */
  get isDeleted(): boolean {
    return this.#isDeleted;
  }

  get #state(): SessionState {
    return this.#parts.journal.requireState();
  }

  // ---- beginning and end ------------------------------------------------------------------------------

  /** Whether the session waits for its client to open it: it is expected only, or its agent refused to open it. */
  get isUnopened(): boolean {
    return isUnopened(this.#state);
  }

  /** Opens the session for the client that asked for it. The session is created if it was not expected. */
  open(request: OpenRequest): void {
    const { journal } = this.#parts;
    if (journal.state) return this.clients.open(request);
    this.#begin(() => {
      this.#context.tables.create();
      journal.create(request.sessionId);
      this.clients.attachFirst(request);
      this.clients.open(request);
    });
    this.#parts.clients.feed();
  }

  /** Begins the life of an imported session, whose log folds to `state`. `writeRest` writes the last rows of the log. */
  adopt(order: ImportOrder, { state, opening, writeRest }: ImportedLog, attach: () => void): void {
    const { journal, concealed } = this.#parts;
    const conceal = (frame: Frame) => concealed.conceal(frame);
    this.#begin(() => {
      writeRest();
      journal.adopt(state);
      this.#record((batch) => takeOverImport(batch, order, opening, conceal));
      attach();
    });
  }

  /**
   * Makes the session in one transaction. Effects follow the transaction: a session that is undone must not have
   * requested a process.
   */
  #begin(make: () => void): void {
    const { ctx, tables } = this.#context;
    const hadTables = tables.exist;
    const withheld: LogEvent[] = [];
    this.#withheld = withheld;
    try {
      ctx.storage.transactionSync(make);
    } catch (error) {
      this.#forget();
      if (!hadTables) tables.forget();
      throw error;
    } finally {
      this.#withheld = undefined;
    }
    this.#runEffects(withheld);
  }

  /** Detaches a client that is gone. The client decides nothing by that: its turn goes on, its permissions stay open. */
  async detach(connection: string, closes = false): Promise<void> {
    const { clients } = this.#parts;
    const role = clients.present().find((client) => client.connection === connection)?.role;
    clients.detach(connection);
    // No other client knows of a session that was never opened.
    if (this.#state.identity?.request === null && clients.isEmpty) await this.#delete();
    else this.#clientGone(connection);
    // The workspace wants the process to end with the last client, as older web clients expect.
    if (closes && role === "controller" && clients.isEmpty) this.people.close(connection);
  }

  /** Detaches a client that keeps its connection, or closes the session for it. */
  async leave(connection: string, order: LeaveOrder): Promise<Result<Left>> {
    const left = await this.clients.leave(connection, order);
    if (left.ok && !left.value.ended && !this.#isDeleted) await this.detach(connection);
    return left;
  }

  /** The agent's requests to the client's files end. A process without any client is kept for a shorter time. */
  #clientGone(connection: string): void {
    this.#record((batch) => ioClientGone(batch, connection));
    const { clients, deadlines } = this.#parts;
    const { run } = this.#state;
    if (run && !run.stopping && clients.isEmpty)
      deadlines.set("idle", Date.now() + idleMsOf(this.#context.limits, false));
  }

  async delete({ subject }: Caller): Promise<Result<undefined>> {
    const state = this.#state;
    await this.#deletionNotice.give();
    // Another call may have deleted the session meanwhile.
    if (this.#isDeleted) return accepted();
    await this.#delete();
    this.#effects.audit(state, { kind: "session.deleted", subject });
    return accepted();
  }

  /** Deletes the process, the history and the row in the index. */
  async #delete(): Promise<void> {
    const { sessionId, lastSeq, identity } = this.#state;
    const { link, watchers, archive, index, registrar } = this.#parts;
    const { access, ctx, removal, tables } = this.#context;
    link.stop("deleted");
    watchers.dismiss("deleted");
    ctx.waitUntil(registrar.leaveAll());
    this.#forget();
    tables.forget();
    access.erase();
    if (!identity) return ctx.storage.deleteAll();
    const order = { tenant: identity.tenant, workspace: identity.workspace, sessionId, lastSeq };
    await removal.begin(order, Promise.all([index.idle(), archive.idle()]));
  }

  /** Storage holds no session, or is about to hold none. */
  #forget(): void {
    const { journal, clients, deadlines } = this.#parts;
    this.#isDeleted = true;
    journal.forget();
    clients.forget();
    this.#context.access.forget();
    deadlines.forget();
  }

  // ---- the one way in ---------------------------------------------------------------------------------

  /** Writes the decided events, then lets every reader advance. Output gates hold all effects until storage is durable. */
  #record(decide: (batch: Batch) => void, committed?: () => void): void {
    const { journal, clients } = this.#parts;
    let events: readonly LogEvent[];
    try {
      events = journal.record(decide);
    } catch (error) {
      console.error("input not recorded", { error: clipMessage(String(error)) });
      this.#undo();
      throw error;
    }
    this.#context.access.setOwnerOnce(this.#state);
    clients.commit();
    committed?.();
    if (this.#withheld) this.#withheld.push(...events);
    else if (events.length > 0) this.#advance(events);
  }

  #advance(events: readonly LogEvent[]): void {
    const { journal, link, clients, watchers } = this.#parts;
    this.#deletionNotice.check(this.#state);
    this.#runEffects(events);
    link.feed();
    clients.feed();
    watchers.feed();
    journal.trim(clients.slowest());
  }

  /** The events are in the log, so a failing effect is no input that was not recorded: a deadline makes good for it. */
  #runEffects(events: readonly LogEvent[]): void {
    try {
      this.#effects.after(this.#state, events);
    } catch (error) {
      console.error("effects failed", { error: clipMessage(String(error)) });
      this.#parts.deadlines.setUnlessSet("effects", Date.now() + EFFECTS_RETRY_MS);
    }
  }

  /** An input was not recorded, so memory may be ahead of the log. If it cannot be undone, the object starts again. */
  #undo(): void {
    // A session that is being made is forgotten as a whole.
    if (this.#withheld) return;
    const { journal, clients } = this.#parts;
    try {
      if (!journal.restore()) throw new Error("the log begins in the archive");
      clients.restore();
      clients.feed();
    } catch (error) {
      console.error("session failed", { error: clipMessage(String(error)) });
      this.#context.ctx.abort("The session could not write its log");
    }
  }

  async runDeadlines(): Promise<void> {
    await this.#parts.deadlines.run(Date.now(), {
      ...timerHandlers(this.#state, this.#parts, this.#processes, this.#effects, this.#rest, (decide) =>
        this.#record(decide),
      ),
      "host-token": () => this.host.endExpiredSockets(),
    });
  }

  // ---- the workspace ----------------------------------------------------------------------------------

  /** When the agent last had work; null while it has. */
  get lastActiveAt(): number | null {
    return lastActiveAt(this.#state);
  }

  get hasProcess(): boolean {
    return this.#state.run !== null && !this.#state.run.stopping;
  }

  setPolicy(policy: PermissionPolicy): void {
    this.#record((batch) => setPolicy(batch, policy));
  }

  setWebhookTypes(types: readonly WebhookMessageType[]): void {
    this.#parts.webhooks.want(types);
  }

  // ---- reads ------------------------------------------------------------------------------------------

  /** The projection with the attached clients and the state of the files, as JSON text. */
  async view(caller: Caller): Promise<string> {
    const workspaceState = await this.#processes.workspaceState(this.#state);
    const { pseudonym, personName } = this.#parts.names.viewOf(caller, this.#state);
    const clients = this.#parts.clients
      .present()
      .map((one) => (pseudonym ? { ...one, connection: pseudonym(one.connection) } : one));
    const { request } = this.#state.identity ?? {};
    const opening = request == null ? undefined : this.#parts.journal.frameAt(request)?.frame;
    const entity = containerEntity(this.#state, opening);
    return sessionFor(caller, { ...project(this.#state), ...entity, clients, workspaceState }, personName);
  }

  /** The projection as JSON text. */
  describe(caller: Caller): string {
    return sessionFor(caller, project(this.#state));
  }

  /** A session that is not opened yet has no origin. */
  origin(): Result<SessionOrigin> {
    const origin = originOf(this.#state);
    return origin ? accepted(origin) : refused(unknownSession(this.#state.sessionId));
  }

  /** A page of the log as NDJSON. */
  async events(caller: Caller, after: number, maxEvents: number): Promise<Result<EventsPage>> {
    const { journal, archive, names } = this.#parts;
    const { sessionId } = this.#state;
    const chars = this.#context.limits.deliverChars;
    const view = names.viewOf(caller, this.#state);
    const read = () => journal.log.readEnvelopes(sessionId, after, chars, maxEvents, view);
    try {
      return accepted(await archive.read(after, read));
    } catch (error) {
      if (error instanceof HistoryGone) return refused({ reason: "gone", message: error.message });
      throw error;
    }
  }

  /** A piece of a segment file of the log. */
  async segment(caller: Caller, cursor: SegmentCursor, upTo: number): Promise<SegmentPage> {
    const { journal, archive, names } = this.#parts;
    const view = names.viewOf(caller, this.#state);
    return archive.read(cursor.after, () => {
      const envelopes = journal.log.envelopes(this.#state.sessionId, cursor.after, view);
      return segmentPage(envelopes, cursor, upTo, this.#context.limits.deliverChars);
    });
  }

  // ---- sockets and access -----------------------------------------------------------------------------

  async receiveSocketMessage(ws: WebSocket, message: string): Promise<void> {
    switch (socketKind(ws)) {
      case "log-watcher":
        return this.#parts.watchers.next(ws);
      case "host-link":
        return this.#receiveFromHost(ws, message);
      default:
        closeUnreadable(ws);
    }
  }

  /** A host whose message fails connects again and repeats what was not acknowledged. */
  async #receiveFromHost(ws: WebSocket, message: string): Promise<void> {
    try {
      await this.host.receive(ws, message);
    } catch (error) {
      console.error("host message failed", { error: clipMessage(String(error)) });
      ws.close(CloseCode.internalError, "internal error");
    }
  }

  /**
   * Detaches every client, dismisses every watcher, and takes the session off the index. The agent's work goes on. The
   * tenant ends the connections, which get nothing more of this session in any case.
   */
  async revoke(): Promise<Omit<RevokedSession, "workspace">> {
    const { clients, watchers, index } = this.#parts;
    const state = this.#state;
    this.#context.access.revoke();
    const dismissed = watchers.dismiss("session revoked");
    const connections = clients.present().map(({ connection }) => connection);
    for (const connection of connections) clients.drop(connection);
    // The index decides nothing, so a slow or failing index holds up no revocation. A failed write is repeated.
    await within(this.#context.limits.revocationWaitMs / 2, index.writeOrRetry(state));
    return { connections, watchers: dismissed };
  }

  /** Writes the session's row in the index anew. */
  reindex(): Promise<void> {
    return this.#parts.index.rewrite(this.#state);
  }

  async restore(): Promise<Result<undefined>> {
    this.#context.access.restore();
    await this.#parts.index.writeOrRetry(this.#state);
    return accepted();
  }
}
