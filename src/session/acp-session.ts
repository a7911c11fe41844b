import { DurableObject } from "cloudflare:workers";
import { AlarmRetry } from "../durable/alarm-retry.ts";
import { sessionObject } from "../durable/objects.ts";
import { socketResponse } from "../durable/socket-response.ts";
import type { Caller } from "../protocol/caller.ts";
import { answerClose } from "../protocol/close-codes.ts";
import type { AgentRequest } from "../protocol/ids.ts";
import { HOST, type LogWatchRequest, WATCH_LOG } from "../protocol/internal-headers.ts";
import type { PermissionChoice, PermissionSummary } from "../protocol/permission.ts";
import type { PermissionPolicy } from "../protocol/permission-policy.ts";
import type { QuestionAnswer, QuestionSummary } from "../protocol/question.ts";
import { accepted, type Result } from "../protocol/refusal.ts";
import type { ReindexedSession } from "../protocol/reindex.ts";
import type {
  ClientFrames,
  EventsPage,
  Forked,
  ForkOrder,
  HostStatusMessage,
  ImportOrder,
  LeaveOrder,
  Left,
  OpenRequest,
  ReceivedFrames,
  RevokedSession,
  SegmentCursor,
  SegmentPage,
  SessionOrigin,
} from "../protocol/rpc.ts";
import type { ChangedSession, SessionChange } from "../protocol/session-change.ts";
import type { HostTokenName } from "../protocol/subject-rpc.ts";
import { readable } from "../protocol/versions.ts";
import type { WebhookMessageType } from "../protocol/webhook-messages.ts";
import { type Access, mayOpenIn } from "./access.ts";
import type { LoadedSession } from "./loaded-session.ts";
import { newContext } from "./new-context.ts";
import { NOT_QUEUED, notAsked, notPending } from "./person-intake.ts";
import { SessionGate } from "./session-gate.ts";
import type { SessionContext } from "./session-parts.ts";
import { importRefusal, isBeingChanged, NOT_OPENED } from "./session-refusals.ts";
import { forkSession } from "./transfer/object/fork.ts";
import { type ImportedLog, SessionImport } from "./transfer/object/session-import.ts";

/**
 * One session, as the other objects and the Worker see it. A method authorises its caller by `Access`, makes one call
 * on the `LoadedSession`, and maps the outcome. A call that `Access` refuses reads nothing of the session.
 */
export class AcpSession extends DurableObject<Env> {
  readonly #context: SessionContext;
  readonly #access: Access;
  readonly #alarmRetry: AlarmRetry;
  readonly #load: SessionGate["load"];
  readonly #session: SessionGate["session"];
  readonly #read: SessionGate["read"];
  readonly #steer: SessionGate["steer"];
  readonly #unknown: SessionGate["unknown"];

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#context = newContext(ctx, env);
    this.#access = this.#context.access;
    this.#alarmRetry = new AlarmRetry(ctx.storage);
    const gate = new SessionGate(this.#context);
    this.#load = gate.load;
    this.#session = gate.session;
    this.#read = gate.read;
    this.#steer = gate.steer;
    this.#unknown = gate.unknown;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  // ---- opening ----------------------------------------------------------------------------------------

  /**
   * Makes the session for the client that asked for it, or that will ask once it has logged in. A session that exists
   * is continued for its own client only: any other session under this id was put here by somebody else.
   */
  async open(request: OpenRequest): Promise<Result<undefined>> {
    readable(request, "A request for a session");
    const existing = await this.#session();
    if (existing && !this.#access.isOpener(existing.clients, request)) return NOT_OPENED;
    if (!mayOpenIn(request.workspace, request.caller)) return NOT_OPENED;
    if (!existing && isBeingChanged(this.#context)) return NOT_OPENED;
    if (!existing || existing.isUnopened) (existing ?? this.#load()).open(request);
    return accepted();
  }

  /** Whether the client that asked for the session can open it now: it has not done so, or the agent has refused. */
  async isAwaitingOpening(connection: string, agent: string): Promise<boolean> {
    return (await this.#session())?.clients.isAwaitingOpening(connection, agent) ?? false;
  }

  /** Makes this session a copy of another one and attaches the client that asked. A repeated order copies nothing. */
  async fork(order: ForkOrder): Promise<Result<Forked>> {
    readable(order, "A request for a fork");
    const existing = await this.#session();
    const workspace = this.#access.owner?.workspace ?? "";
    if (existing)
      return this.#access.isOpener(existing.clients, { ...order, workspace })
        ? accepted(existing.clients.forkedTo(order.connection))
        : NOT_OPENED;
    const source = sessionObject(this.env, order.caller.tenant, order.from);
    return forkSession(
      source,
      order,
      (importOrder) => this.#import(importOrder, () => this.#load().clients.attachToFork(order)),
      () => this.#load().clients.forkedTo(order.connection),
    );
  }

  /** Takes in a session from elsewhere, if there is none here. The caller must dispose of the import. */
  import(order: ImportOrder): Result<SessionImport> {
    return this.#import(readable(order, "An import"));
  }

  /** `attach` runs in the transaction that makes the rows a session. */
  #import(order: ImportOrder, attach: () => void = () => {}): Result<SessionImport> {
    // A caller without access gets the same refusal as on every route.
    if (this.#access.owner && !this.#access.mayRead(order.caller)) return this.#unknown();
    const refusal = importRefusal(this.#context, order);
    if (refusal) return refusal;
    const commit = (log: ImportedLog) => this.#load().adopt(order, log, attach);
    return accepted(new SessionImport(this.#context, order, commit));
  }

  // ---- clients ----------------------------------------------------------------------------------------

  /** Takes frames of a client. A frame that comes a second time counts once. */
  receive(batch: ClientFrames): Promise<Result<ReceivedFrames>> {
    return this.#read(batch.caller, ({ clients }) => clients.receive(readable(batch, "A batch of frames")));
  }

  /** A login or a logout that the agent of another session has accepted. */
  async relay(caller: Caller, raw: string, agent?: string): Promise<void> {
    await this.#steer(caller, ({ logins }) => logins.relay(raw, agent));
  }

  /** Lets a client whose reading rests go on from the cursor that its connection names. */
  async wake(connection: string): Promise<void> {
    (await this.#session())?.clients.wake(connection);
  }

  /**
   * Detaches a client that is gone, or that leaves by an `order`. With `closesIfLast` the session closes if no other client
   * is attached. Release 0.1.0 ignores the order and returns nothing, so a client whose order closes the session has to
   * send its frame there.
   */
  async detach(
    connection: string,
    order?: LeaveOrder,
    closesIfLast = false,
  ): Promise<Result<Left> | undefined> {
    if (order) return this.#leave(connection, readable(order, "An order to leave"));
    await (await this.#session())?.detach(connection, closesIfLast);
    return undefined;
  }

  #leave(connection: string, order: LeaveOrder): Promise<Result<Left>> {
    const leave = (session: LoadedSession) => session.leave(connection, order);
    return order.closes ? this.#steer(order.caller, leave) : this.#read(order.caller, leave);
  }

  /** Detaches a client that has read a closed session to its end. False: more may follow. */
  async release(connection: string): Promise<boolean> {
    return (await this.#session())?.clients.release(connection) ?? true;
  }

  /** Continues a client with another token. */
  async renew(connection: string, caller: Caller): Promise<void> {
    (await this.#session())?.clients.renew(connection, caller, this.#access.mayRead(caller));
  }

  // ---- in place of a client ---------------------------------------------------------------------------

  /** Answers a permission request of the agent on behalf of `caller`; `by` is its connection, or the route it used. */
  answerPermission(caller: Caller, request: AgentRequest, choice: PermissionChoice, by: string) {
    const answer = ({ people }: LoadedSession) => people.answerPermission(caller, request.seq, choice, by);
    return this.#read(caller, answer, notPending(request));
  }

  /** The subject and the options of a pending permission request. */
  permissionSummary(caller: Caller, request: AgentRequest): Promise<Result<PermissionSummary>> {
    return this.#read(caller, ({ people }) => people.permissionSummary(request.seq), notPending(request));
  }

  /** Answers a question of the agent on behalf of `caller`; `by` is the route it used. */
  answerQuestion(caller: Caller, request: AgentRequest, answer: QuestionAnswer, by: string) {
    const give = ({ people }: LoadedSession) => people.answerQuestion(caller, request.seq, answer, by);
    return this.#read(caller, give, notAsked(request));
  }

  /** A pending question, with its whole form. */
  questionSummary(caller: Caller, request: AgentRequest): Promise<Result<QuestionSummary>> {
    return this.#read(caller, ({ people }) => people.questionSummary(request.seq), notAsked(request));
  }

  /** Removes a prompt from the queue. */
  unqueue(caller: Caller, turnId: string): Promise<Result<undefined>> {
    return this.#steer(caller, ({ people }) => people.unqueue(turnId), NOT_QUEUED);
  }

  /** Changes the session's title, or its place in lists. `by` is the connection or the route of `caller`. */
  change(caller: Caller, change: SessionChange, by: string): Promise<Result<ChangedSession>> {
    const { subject } = caller;
    return this.#steer(caller, ({ people }) => people.change(change, { by, subject }));
  }

  /** Whether a process has the session, in ACP's words. */
  status(caller: Caller): Promise<Result<"open" | "saved">> {
    return this.#read(caller, (session) => accepted(session.hasProcess ? "open" : "saved"));
  }

  /** Ends the work and the process; the history stays. */
  close(caller: Caller, by: string): Promise<Result<undefined>> {
    return this.#steer(caller, ({ people }) => people.close(by));
  }

  /** Deletes the session for good: its process, its history and its row in the index. */
  delete(caller: Caller): Promise<Result<undefined>> {
    return this.#steer(caller, (session) => session.delete(caller));
  }

  // ---- sockets ----------------------------------------------------------------------------------------

  /** The socket of a host, or of the Worker for a reader of the live log. */
  override async fetch(request: Request): Promise<Response> {
    const watch = WATCH_LOG.read(request.headers);
    if (watch) return this.#watch(watch);
    const host = HOST.read(request.headers);
    return socketResponse(
      host && this.#access.mayServe(host) ? await this.#acceptHost(host) : this.#unknown(),
    );
  }

  async #acceptHost(host: Caller): Promise<Result<WebSocket>> {
    const session = await this.#session();
    const checked = await this.#context.sockets.checkHost(host);
    if (!checked.ok) return checked;
    return session && !session.isDeleted ? accepted(session.host.accept(host)) : this.#unknown();
  }

  async #watch({ caller, after, socket }: LogWatchRequest): Promise<Response> {
    return socketResponse(
      await this.#read(caller, (session) => session.watching.open(caller, after, socket)),
    );
  }

  override async webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    if (typeof message === "string") await (await this.#session())?.receiveSocketMessage(ws, message);
  }

  override webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    return this.#socketClosed(ws, reason || `socket closed (${code})`);
  }

  /** An error is not followed by a close. */
  override webSocketError(ws: WebSocket): Promise<void> {
    return this.#socketClosed(ws, "socket broken");
  }

  async #socketClosed(ws: WebSocket, reason: string): Promise<void> {
    const session = await this.#session();
    const id = this.#context.sockets.idOf(ws);
    if (id !== undefined) this.ctx.waitUntil(session?.watching.leave(id) ?? Promise.resolve());
    session?.host.releaseSocket(ws, reason);
  }

  /** The token of a watcher is revoked. */
  async endSocket(id: string, reason: string): Promise<void> {
    this.#context.sockets.end(id, reason);
    (await this.#session())?.watching.markEnded(id);
  }

  /** For the object of a watcher's subject, whose places are all taken. */
  async holdsSocket(id: string): Promise<boolean> {
    return (await this.#session())?.watching.holds(id) ?? false;
  }

  /** For the workspace: the token of a host is revoked. Returns how many sockets the host had here with the token. */
  endHostToken(token: HostTokenName): number {
    return this.#context.sockets.endHostToken(token);
  }

  override async alarm(): Promise<void> {
    if (this.#context.removal.isUnderWay) return this.#context.removal.proceed();
    await (await this.#alarmRetry.load(() => this.#session()))?.runDeadlines();
  }

  // ---- the workspace ----------------------------------------------------------------------------------

  /** The host is gone, or it was restarted and does not have the session's process. */
  async hostLost(message: HostStatusMessage): Promise<void> {
    (await this.#session())?.host.markLost(message);
  }

  /** The host has been absent for long. The session waits for it, because no other host has its files. */
  async hostAbsent(message: HostStatusMessage): Promise<void> {
    (await this.#session())?.host.markAbsent(message);
  }

  /** The host is about to leave. */
  async hostDraining(message: HostStatusMessage): Promise<void> {
    (await this.#session())?.host.markDraining(message);
  }

  /** When the agent last had work; null while it has. */
  async lastActiveAt(): Promise<number | null> {
    const session = await this.#session();
    return session ? session.lastActiveAt : 0;
  }

  /** Sets the workspace's rules for permissions. */
  async setPolicy(policy: PermissionPolicy): Promise<void> {
    (await this.#session())?.setPolicy(policy);
  }

  /** Sets the types of messages that the workspace's webhooks subscribe to. */
  async setWebhookTypes(types: readonly WebhookMessageType[]): Promise<void> {
    (await this.#session())?.setWebhookTypes(types);
  }

  /** Writes the session's row in the index anew. */
  async reindex(workspace: string): Promise<ReindexedSession> {
    const session = await this.#session();
    await session?.reindex();
    if (!session) return "gone";
    return this.#access.owner?.workspace === workspace ? "written" : "elsewhere";
  }

  // ---- reads ------------------------------------------------------------------------------------------

  /** The projection with the attached clients and the state of the files, as JSON text. */
  view(caller: Caller): Promise<Result<string>> {
    return this.#read(caller, async (session) => accepted(await session.view(caller)));
  }

  /** The projection as JSON text. */
  describe(caller: Caller): Promise<Result<string>> {
    return this.#read(caller, (session) => accepted(session.describe(caller)));
  }

  /** The facts that a copy of the session needs. */
  origin(caller: Caller): Promise<Result<SessionOrigin>> {
    return this.#read(caller, (session) => session.origin());
  }

  /** A page of the log as NDJSON, with at least one event if there is one after `after`. */
  events(caller: Caller, after: number, maxEvents: number): Promise<Result<EventsPage>> {
    return this.#read(caller, (session) => session.events(caller, after, maxEvents));
  }

  /** A piece of a segment file of the log, up to the event `upTo`. */
  segment(caller: Caller, cursor: SegmentCursor, upTo: number): Promise<Result<SegmentPage>> {
    return this.#read(caller, async (session) => accepted(await session.segment(caller, cursor, upTo)));
  }

  // ---- revocation -------------------------------------------------------------------------------------

  /** Ends all access to the session, and the sockets in use. The agent's work goes on. Says where the session is. */
  async revoke(caller: Caller): Promise<Result<RevokedSession>> {
    const session = this.#access.mayAdminister(caller) ? await this.#session() : undefined;
    const workspace = this.#access.owner?.workspace;
    if (!session || workspace === undefined) return this.#unknown();
    return accepted({ workspace, ...(await session.revoke()) });
  }

  /** Gives access again, as before the revocation. */
  async restore(caller: Caller): Promise<Result<undefined>> {
    const session = this.#access.mayAdminister(caller) ? await this.#session() : undefined;
    return session ? session.restore() : this.#unknown();
  }

  /** Gives access again after the time of a revocation is over. */
  async endRevocation(tenant: string): Promise<Result<undefined>> {
    const session = this.#access.owner?.tenant === tenant ? await this.#session() : undefined;
    return session ? session.restore() : this.#unknown();
  }
}
