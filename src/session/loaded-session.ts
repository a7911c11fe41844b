import { closeUnreadable, socketKind } from "../durable/attachments.ts";
import type { Caller } from "../protocol/caller.ts";
import type { Frame } from "../protocol/frame.ts";
import type { PermissionPolicy } from "../protocol/permission-policy.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import type {
  EventsPage,
  ImportOrder,
  OpenRequest,
  SegmentCursor,
  SegmentPage,
  SessionOrigin,
} from "../protocol/rpc.ts";
import type { WebhookMessageType } from "../protocol/webhook-messages.ts";
import { ClientIntake } from "./client-intake.ts";
import { isUnopened } from "./core/decide/agent-process.ts";
import type { Batch } from "./core/decide/batch.ts";
import { ioClientGone } from "./core/decide/client-files.ts";
import { type OpeningRequest, takeOverImport } from "./core/decide/import-events.ts";
import { setPolicy } from "./core/decide/policy.ts";
import type { LogEvent } from "./core/events/event.ts";
import { project } from "./core/read/projection.ts";
import { sessionFor } from "./core/read/redaction/redaction.ts";
import type { SessionState } from "./core/state/state.ts";
import { Effects } from "./effects.ts";
import { HostIntake } from "./host-intake.ts";
import { HistoryGone } from "./log/history-gone.ts";
import { ProcessRequests } from "./outbox/process-requests.ts";
import { loadParts, type SessionContext, type SessionParts, workspaceObjectOf } from "./session-parts.ts";
import { timerHandlers } from "./timers.ts";
import { segmentPage } from "./transfer/object/segments.ts";

/**
 * A session loaded into memory. Every input is turned into events; the events are written to the log; then the log's
 * readers (host link, client cursors, watchers) advance. All of it is rebuilt from storage and socket attachments.
 */
export class LoadedSession {
  /** Settles when the state equals the log, which must precede any other use. Undefined: the state does already. */
  readonly ready: Promise<void> | undefined;
  readonly clients: ClientIntake;
  readonly host: HostIntake;
  readonly #context: SessionContext;
  readonly #parts: SessionParts;
  readonly #processes: ProcessRequests;
  readonly #effects: Effects;
  #isDeleted = false;

  constructor(context: SessionContext) {
    this.#context = context;
    const record = (decide: (batch: Batch) => void) => this.#record(decide);
    this.#parts = loadParts(context, record);
    this.#processes = new ProcessRequests(context, this.#parts, record);
    this.#effects = new Effects(context, this.#parts, this.#processes);
    this.clients = new ClientIntake(this.#parts, record);
    this.host = new HostIntake(this.#parts, context.sockets, record);
    if (!this.#parts.journal.catchUp()) this.ready = this.#replayArchive();
  }

  /** Folds a log whose beginning is in the archive, when no usable snapshot exists. */
  async #replayArchive(): Promise<void> {
    const { journal, archive } = this.#parts;
    while (!journal.catchUp()) await archive.reach(journal.state?.lastSeq ?? 0);
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
    if (!journal.state) {
      this.#context.tables.create();
      journal.create(request.sessionId);
      this.clients.attachFirst(request);
    }
    this.clients.open(request);
  }

  /** Begins the life of an imported session, whose log is written already and folds to `state`. */
  adopt(order: ImportOrder, state: SessionState, opening: OpeningRequest | undefined): void {
    const { journal, concealed } = this.#parts;
    journal.adopt(state);
    const conceal = (frame: Frame) => concealed.conceal(frame);
    this.#record((batch) => takeOverImport(batch, order, opening, conceal));
  }

  /** Detaches a client that is gone. The client decides nothing by that: its turn goes on, its permissions stay open. */
  async detach(connection: string): Promise<void> {
    const { clients } = this.#parts;
    clients.detach(connection);
    // No other client knows of a session that was never opened.
    if (this.#state.identity?.request === null && clients.present().length === 0) await this.#delete();
    else this.#record((batch) => ioClientGone(batch, connection));
  }

  async delete({ subject }: Caller): Promise<Result<undefined>> {
    const state = this.#state;
    await this.#delete();
    this.#effects.audit(state, { kind: "session.deleted", subject });
    return accepted();
  }

  /** Deletes the process, the history and the row in the index. */
  async #delete(): Promise<void> {
    const state = this.#state;
    const { link, watchers, archive, journal, clients, deadlines, index } = this.#parts;
    link.stop("deleted");
    watchers.dismiss("deleted");
    await archive.delete();
    this.#isDeleted = true;
    journal.forget();
    clients.forget();
    this.#context.access.forget();
    deadlines.forget();
    this.#context.tables.forget();
    await this.#context.ctx.storage.deleteAll();
    await index.remove(state);
    await workspaceObjectOf(this.#context.env, state)?.release(state.sessionId, state.lastSeq);
  }

  // ---- the one way in ---------------------------------------------------------------------------------

  /** Writes the decided events, then lets every reader advance. Output gates hold all effects until storage is durable. */
  #record(decide: (batch: Batch) => void): void {
    const { journal, link, clients, watchers } = this.#parts;
    let events: readonly LogEvent[];
    try {
      events = journal.record(decide);
    } catch (error) {
      // Memory is ahead of the log, so the object must start again from storage.
      console.error("session failed", { error: String(error) });
      this.#context.ctx.abort("The session could not write its log");
      throw error;
    }
    if (events.length === 0) return;
    this.#setOwner();
    this.#effects.after(this.#state, events);
    link.feed();
    clients.feed();
    watchers.feed();
    journal.trim(clients.slowest());
  }

  #setOwner(): void {
    const { identity, sessionId } = this.#state;
    if (!identity || this.#context.access.owner) return;
    this.#context.access.setOwner({ tenant: identity.tenant, workspace: identity.workspace, sessionId });
  }

  async runDeadlines(): Promise<void> {
    await this.#parts.deadlines.run(Date.now(), {
      ...timerHandlers(this.#state, this.#parts, this.#processes, (decide) => this.#record(decide)),
      "host-token": () => this.host.endExpiredSockets(),
    });
  }

  // ---- the workspace ----------------------------------------------------------------------------------

  /** When the agent last had work; null while it has. */
  get lastActiveAt(): number | null {
    const { agent, turn, queue, activeAt } = this.#state;
    return agent === "starting" || turn !== null || queue.length > 0 ? null : activeAt;
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
    const clients = this.#parts.clients.present();
    return sessionFor(caller, { ...project(this.#state), clients, workspaceState });
  }

  /** The projection as JSON text. */
  describe(caller: Caller): string {
    return sessionFor(caller, project(this.#state));
  }

  /** Null until the session is opened. */
  origin(): SessionOrigin | null {
    const { identity, lastSeq } = this.#state;
    return identity && lastSeq ? { workspace: identity.workspace, agent: identity.agent, lastSeq } : null;
  }

  /** A page of the log as NDJSON. */
  async events({ redacted }: Caller, after: number, maxEvents: number): Promise<Result<EventsPage>> {
    const { journal, archive } = this.#parts;
    try {
      await archive.reach(after);
    } catch (error) {
      if (error instanceof HistoryGone) return refused({ reason: "gone", message: error.message });
      throw error;
    }
    const { sessionId } = this.#state;
    const { deliverChars } = this.#context.limits;
    return accepted(journal.log.readEnvelopes(sessionId, after, deliverChars, maxEvents, redacted));
  }

  /** A piece of a segment file of the log. */
  async segment({ redacted }: Caller, cursor: SegmentCursor, upTo: number): Promise<SegmentPage> {
    const { journal, archive } = this.#parts;
    await archive.reach(cursor.after);
    const envelopes = journal.log.envelopes(this.#state.sessionId, cursor.after, redacted);
    return segmentPage(envelopes, cursor, upTo, this.#context.limits.deliverChars);
  }

  // ---- sockets and access -----------------------------------------------------------------------------

  /** A socket that gets the log from the event after `after` on. */
  watch(caller: Caller, after: number): Result<WebSocket> {
    const { registration, tags } = this.#context.sockets.prepare(caller, "watcher", this.#state.sessionId);
    const result = this.#parts.watchers.accept(after, tags, caller.redacted);
    if (result.ok) this.#context.sockets.register(registration);
    return result;
  }

  async receiveSocketMessage(ws: WebSocket, message: string): Promise<void> {
    switch (socketKind(ws)) {
      case "log-watcher":
        return this.#parts.watchers.next(ws);
      case "host-link":
        return this.host.receive(ws, message);
      default:
        closeUnreadable(ws);
    }
  }

  /** Disconnects every client and watcher, and takes the session off the index. The agent's work goes on. */
  async revoke(): Promise<Result<undefined>> {
    const { clients, watchers, index } = this.#parts;
    const state = this.#state;
    this.#context.access.revoke();
    watchers.dismiss("session revoked");
    const connections = clients.present().map(({ connection }) => connection);
    for (const connection of connections) clients.drop(connection);
    const { ACP_CONNECTION_DO } = this.#context.env;
    await Promise.all([
      ...connections.map((id) => ACP_CONNECTION_DO.getByName(id).endSocket(id, "session revoked")),
      index.remove(state),
    ]);
    return accepted();
  }

  async restore(): Promise<Result<undefined>> {
    this.#context.access.restore();
    await this.#parts.index.write(this.#state);
    return accepted();
  }
}
