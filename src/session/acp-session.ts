import { DurableObject } from "cloudflare:workers";
import { closeUnreadable, socketKind } from "../durable/attachments.ts";
import { newId } from "../durable/new-id.ts";
import { objectName, sessionObject } from "../durable/object-names.ts";
import { Tables } from "../durable/schema.ts";
import { closeRegistered, registrationFor, registrationTags } from "../durable/socket-registration.ts";
import { type Caller, isHost, mayUseWorkspace, roleOf } from "../protocol/caller.ts";
import type { Hears } from "../protocol/client-subscriptions.ts";
import { answerClose, CloseCode } from "../protocol/close-codes.ts";
import { ErrorCode } from "../protocol/errors.ts";
import { type Frame, isFault, readFrame } from "../protocol/frame.ts";
import { decodeLink, encodeLink } from "../protocol/host-wire.ts";
import { type AgentRequest, clientRequestId } from "../protocol/ids.ts";
import { HOST, type LogWatchRequest, WATCH_LOG } from "../protocol/internal-headers.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { PermissionChoice, PermissionSummary } from "../protocol/permission.ts";
import type { PermissionPolicy } from "../protocol/permission-policy.ts";
import { accepted, type Result, refused, unknownPermission } from "../protocol/refusal.ts";
import type { HostStatusMessage, ObjectAddress } from "../protocol/rpc.ts";
import type { NoticeType } from "../protocol/webhook-messages.ts";
import { Access } from "./access.ts";
import {
  close,
  drain,
  hostAbsent,
  hostGone,
  isUnopened,
  processLost,
  processRequestLost,
} from "./core/decide/agent-process.ts";
import { choosePermission, openToClients } from "./core/decide/agent-requests.ts";
import { ioClientGone } from "./core/decide/client-files.ts";
import { anticipate, clientFrame, open, relayLogin } from "./core/decide/client-frames.ts";
import { hostHello, hostItem, isWelcome } from "./core/decide/host-items.ts";
import { type ImportOrder, imported } from "./core/decide/import-events.ts";
import { setPolicy } from "./core/decide/policy.ts";
import { dropQueued } from "./core/decide/turns.ts";
import { permissionSummary } from "./core/read/permission-summary.ts";
import { project } from "./core/read/projection.ts";
import { sessionFor } from "./core/read/redaction/redaction.ts";
import { attachmentFor } from "./core/read/replay.ts";
import { currentSetup } from "./core/state/agent-report.ts";
import { LiveSession } from "./loaded-session.ts";
import { type HostHello, readHead } from "./readers/host-link.ts";
import { presenceOf } from "./readers/presence.ts";
import { SESSION_SCHEMA } from "./schema.ts";
import { copyLog, type Forked, type ForkOrder } from "./transfer/object/fork.ts";
import { type SegmentCursor, type SegmentPage, segmentPage } from "./transfer/object/segments.ts";
import { isStaged, SessionImport } from "./transfer/object/session-import.ts";

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
/** `gone` says why there is nothing where there was something once. */
export type EventsPage = { text: string; last: number; count: number; gone?: string };

/**
 * One session, as the other objects and the Worker see it. Whoever asks is checked first, by what `Access` knows;
 * only then is the session itself read, see `LiveSession`.
 */
export class AcpSession extends DurableObject<Env> {
  readonly #access: Access;
  readonly #tables: Tables;
  #live: LiveSession | undefined;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#access = new Access(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    // What an import has left that a crash ended.
    this.#tables = new Tables(ctx.storage, SESSION_SCHEMA);
    if (isStaged(ctx.storage.sql, this.#tables)) {
      this.#tables.forget();
      void ctx.blockConcurrencyWhile(() => ctx.storage.deleteAll());
    }
  }

  /** The session, if there is one here. */
  async #session(): Promise<LiveSession | undefined> {
    if (!this.#access.owner) return undefined;
    const session = this.#inMemory();
    try {
      await session.whole;
    } catch (error) {
      // The archive could not be read: the next one who asks tries again.
      if (this.#live === session) this.#live = undefined;
      throw error;
    }
    return session.isOver ? undefined : session;
  }

  /** The same for a caller who may read it. */
  async #readable(caller: Caller): Promise<LiveSession | undefined> {
    return this.#access.mayRead(caller) ? this.#session() : undefined;
  }

  /** The same for one who may steer it. */
  async #steerable(caller: Caller): Promise<LiveSession | undefined> {
    return roleOf(caller) === "controller" ? this.#readable(caller) : undefined;
  }

  #inMemory(): LiveSession {
    // After one was deleted there may be another.
    if (!this.#live || this.#live.isOver)
      this.#live = new LiveSession(this.ctx, this.env, this.#access, this.#tables);
    return this.#live;
  }

  // ---- clients ----------------------------------------------------------------------------------------

  /** Makes the session for the client that asked for it, or will do so when it has logged in. */
  async open({ sessionId, connection, caller, workspace, agent, raw, hears }: OpenRequest): Promise<void> {
    const expected = await this.#session();
    if (expected && !isUnopened(expected.state)) return;
    if (!mayWork(caller, workspace)) throw new Error("Not this caller's to open");
    const session = expected ?? this.#inMemory();
    if (!expected) {
      session.create(sessionId);
      const attachment = { seq: 0, start: 0, merge: false, offers: [] };
      const params = raw === null ? undefined : ownFrame(raw).value.params;
      session.clients.attach(connection, attachment, presenceOf(caller, Date.now(), hears, params));
    }
    const owner = { tenant: caller.tenant, owner: caller.subject, workspace, agent };
    session.record((batch) => {
      if (raw === null) anticipate(batch, owner);
      else open(batch, connection, session.hidden.conceal(ownFrame(raw)), owner);
    });
  }

  /** Whether the client that asked for it can open it now: it has not yet, or the agent has refused. */
  async awaitsOpening(connection: string, agent: string): Promise<boolean> {
    const session = await this.#session();
    if (!session?.clients.has(connection)) return false;
    const isSame = agent === "" || session.state.identity?.agent === agent;
    return isSame && isUnopened(session.state);
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
    const { state, clients } = this.#inMemory();
    const attach = state.lastSeq;
    const attachment = { seq: attach, start: attach, merge: false, offers: [] };
    clients.attach(connection, attachment, presenceOf(caller, Date.now(), hears, JSON.parse(opening)));
    return { attach, setup: JSON.stringify(currentSetup(state.acp)) };
  }

  /** What a fork has to know beforehand. */
  async origin(caller: Caller): Promise<{ workspace: string; agent: string; lastSeq: number } | null> {
    const { identity, lastSeq } = (await this.#readable(caller))?.state ?? {};
    return identity && lastSeq ? { workspace: identity.workspace, agent: identity.agent, lastSeq } : null;
  }

  /** False: there is no such session for this caller. */
  async receive({ connection, caller, numbers, frames, hears }: ClientFrames): Promise<boolean> {
    const session = await this.#readable(caller);
    if (!session) return false;
    const { clients, hidden } = session;
    const known = clients.lastReceived(connection);
    const fresh = frames
      .filter((_, i) => (numbers[i] as number) > known)
      .map((raw) => hidden.conceal(ownFrame(raw)));
    if (fresh.length === 0) return true;
    session.record((batch) => {
      for (const frame of fresh) {
        const attached = clients.has(connection);
        const attachment = attachmentFor(frame, batch.nextSeq, attached, openToClients(batch.state));
        const presence = presenceOf(caller, batch.at, hears, frame.value.params);
        if (attachment) clients.attach(connection, attachment, presence);
        clientFrame(batch, { connection, caller, answering: clients.answering() }, frame, () =>
          newId("turn"),
        );
      }
      clients.received(connection, numbers.at(-1) as number);
    });
    return true;
  }

  /** Answers a permission request of the agent on behalf of `caller`; `by` is its connection, or the route it used. */
  async answerPermission(
    caller: Caller,
    { sessionId, seq }: AgentRequest,
    choice: PermissionChoice,
    by: string,
  ): Promise<Result<undefined>> {
    let result: Result<undefined> = refused(unknownPermission(clientRequestId(sessionId, seq)));
    const session = await this.#readable(caller);
    if (!session?.state.awaitingClient[seq]?.permission || !caller.scopes.includes("permission:answer"))
      return result;
    session.record((batch) => {
      result = choosePermission(batch, seq, choice, { by, subject: caller.subject, why: "answered" });
    });
    return result;
  }

  /** The subject and the options of a pending permission request. */
  async permissionSummary(
    caller: Caller,
    { sessionId, seq }: AgentRequest,
  ): Promise<Result<PermissionSummary>> {
    const session = await this.#readable(caller);
    const isPending = session?.state.awaitingClient[seq]?.permission;
    const params = isPending && session.journal.frameAt(seq)?.frame.value.params;
    const summary = isPending ? permissionSummary(session.state, seq, params) : null;
    return summary ? accepted(summary) : refused(unknownPermission(clientRequestId(sessionId, seq)));
  }

  /** Takes a waiting prompt out of the queue; false if it does not wait. */
  async unqueue(caller: Caller, turnId: string): Promise<boolean> {
    const session = await this.#steerable(caller);
    const queued = session?.state.queue.find((item) => item.turnId === turnId);
    if (!session || !queued) return false;
    const error = { code: ErrorCode.requestCancelled, message: "Taken out of the queue" };
    session.record((batch) => dropQueued(batch, queued, error));
    return true;
  }

  /** Ends the work in place of a client, and the process with it; the history stays. False: there is none to end. */
  async close(caller: Caller, by: string): Promise<boolean> {
    const session = await this.#steerable(caller);
    if (!session || session.state.closed) return false;
    session.record((batch) => close(batch, by));
    return true;
  }

  /** Ends the session for good: process, history and its line in the index. */
  async delete(caller: Caller): Promise<boolean> {
    const session = await this.#steerable(caller);
    if (!session) return false;
    const { state } = session;
    await session.remove();
    session.followUp.note(state, { kind: "session.deleted", subject: caller.subject });
    return true;
  }

  /** A client whose reading rested can go on, from where its connection says. */
  async ready(connection: string): Promise<void> {
    (await this.#session())?.clients.ready(connection);
  }

  /** A dropped client decides nothing: its turn goes on, its permissions stay open. */
  async detach(connection: string): Promise<void> {
    const session = await this.#session();
    if (!session) return;
    const { clients, state } = session;
    clients.detach(connection);
    // Nobody else has ever heard of a session that was not opened.
    if (state.identity?.request === null && clients.present().length === 0) await session.remove();
    else session.record((batch) => ioClientGone(batch, connection));
  }

  /** Detaches a client for which there is nothing more to come; false if there may be. */
  async letsGo(connection: string): Promise<boolean> {
    const session = await this.#session();
    if (!session) return true;
    const { state, clients } = session;
    if (!state.closed || !clients.hasRead(connection, state.lastSeq)) return false;
    clients.detach(connection);
    return true;
  }

  /** A login, or a logout, that the agent of another session has taken. */
  async relay(caller: Caller, raw: string): Promise<void> {
    (await this.#steerable(caller))?.record((batch) => relayLogin(batch, ownFrame(raw)));
  }

  // ---- the host ---------------------------------------------------------------------------------------

  /** The host's socket for this session. The Worker has checked the token; whose host it is is checked here. */
  override async fetch(request: Request): Promise<Response> {
    const watch = WATCH_LOG.read(request.headers);
    if (watch) return this.#watch(watch);
    const host = HOST.read(request.headers);
    const session = host && isHost(host) && this.#access.isIn(host) ? await this.#session() : undefined;
    if (!host || !session) return new Response("Unknown session", { status: 404 });
    const registration = registrationFor(host, "host", holderOf(host, session));
    const socket = session.link.accept(registrationTags(registration));
    this.#access.admit(registration);
    this.#checkHostTokens(session);
    return new Response(null, { status: 101, webSocket: socket });
  }

  override async webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const session = await this.#session();
    if (!session || typeof message !== "string") return;
    switch (socketKind(ws)) {
      case "log-watcher":
        return session.watchers.next(ws);
      case "host-link":
        return this.#fromHost(ws, session, message);
      default:
        closeUnreadable(ws);
    }
  }

  #fromHost(ws: WebSocket, session: LiveSession, message: string): void {
    const { head, lines } = decodeLink(message);
    const checked = readHead(head);
    if (!checked) return ws.close(CloseCode.badMessage, "unknown message");
    if (checked.t === "hello") this.#hello(ws, session, checked);
    else this.#items(ws, session, checked.first, lines);
  }

  override webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    return this.#closed(ws, reason || `socket closed (${code})`);
  }

  /** After this there is no close. */
  override webSocketError(ws: WebSocket): Promise<void> {
    return this.#closed(ws, "socket broken");
  }

  async #closed(ws: WebSocket, reason: string): Promise<void> {
    this.#access.left(ws);
    const session = await this.#session();
    const run = session?.link.runOf(ws);
    if (!session || run === undefined || session.state.run?.id !== run || session.link.socket()) return;
    session.record((batch) => hostGone(batch, reason));
  }

  #hello(ws: WebSocket, session: LiveSession, hello: HostHello): void {
    const { state, link } = session;
    if (!isWelcome(state, hello)) return ws.close(CloseCode.superseded, "superseded");
    session.record((batch) => {
      hostHello(batch, hello);
      const { since, received } = state.run ?? { since: 0, received: 0 };
      link.adopt(ws, hello.run, Math.max(hello.delivered, since));
      ws.send(encodeLink({ t: "welcome", received }));
    });
    if (state.run?.stopping) link.stop("no longer needed");
  }

  #items(ws: WebSocket, session: LiveSession, first: number, lines: string[]): void {
    const { run } = session.state;
    if (!run || session.link.runOf(ws) !== run.id) return ws.close(CloseCode.superseded, "superseded");
    const repeated = run.received + 1 - first;
    if (repeated < 0) return ws.close(CloseCode.badMessage, "items are missing");
    session.record((batch) => {
      const clients = () => session.clients.serving();
      for (const line of lines.slice(repeated)) hostItem(batch, line, clients);
    });
    ws.send(encodeLink({ t: "ack", received: first + lines.length - 1 }));
  }

  /** A host comes back with a newer token; the process at the other end does not notice. */
  #checkHostTokens({ link, deadlines }: LiveSession): void {
    const next = this.#access.endExpired(link.sockets());
    if (next !== null) deadlines.set("host-token", next);
  }

  // ---- its workspace ----------------------------------------------------------------------------------

  /** The workspace learnt that the host is gone, or was started anew and does not have the session's process. */
  async lost(word: HostStatusMessage): Promise<void> {
    const session = await this.#meant(word);
    if (!session) return;
    const { host, reason } = word;
    session.record((batch) =>
      (batch.state.run?.host === host ? processLost : processRequestLost)(batch, reason),
    );
    session.link.dismiss("superseded");
  }

  /** The host has been away for long, but the session has no other place to go. */
  async absent(word: HostStatusMessage): Promise<void> {
    const session = await this.#meant(word);
    session?.record((batch) => hostAbsent(batch, word.host, word.reason));
    session?.link.hangUp();
  }

  /** The host wants to leave. */
  async drain(word: HostStatusMessage): Promise<void> {
    (await this.#meant(word))?.record((batch) => drain(batch, word.host));
  }

  /** What the workspace says may come late, or twice. Before there were wishes, the host alone had to do. */
  async #meant({ wish, host }: HostStatusMessage): Promise<LiveSession | undefined> {
    const session = await this.#session();
    if (!session) return undefined;
    const { state } = session;
    return (wish === 0 ? state.run?.host === host : state.processRequest === wish) ? session : undefined;
  }

  /** When the agent last had something to do; null while it has. */
  async lastActive(): Promise<number | null> {
    const session = await this.#session();
    if (!session) return 0;
    const { agent, turn, queue, activeAt } = session.state;
    return agent === "starting" || turn !== null || queue.length > 0 ? null : activeAt;
  }

  /** The workspace's policy has changed. */
  async policy(policy: PermissionPolicy): Promise<void> {
    (await this.#session())?.record((batch) => setPolicy(batch, policy));
  }

  /** The workspace's webhooks want to hear of other things than before. */
  async wantNotices(types: readonly NoticeType[]): Promise<void> {
    (await this.#session())?.notices.want(types);
  }

  // ---- time -------------------------------------------------------------------------------------------

  override async alarm(): Promise<void> {
    const session = await this.#session();
    if (!session) return;
    await session.deadlines.run(Date.now(), {
      ...session.followUp.handlers(session.state),
      "host-token": () => this.#checkHostTokens(session),
    });
  }

  // ---- readers of the state and the log ---------------------------------------------------------------

  /** The projection with who is attached and how the files are, as JSON text; null for an unknown session. */
  async view(caller: Caller): Promise<string | null> {
    const session = await this.#readable(caller);
    if (!session) return null;
    const workspaceState = await session.followUp.workspaceState(session.state);
    // It may have been deleted, or closed to the caller, while its workspace was asked.
    if (session.isOver || !this.#access.mayRead(caller)) return null;
    const clients = session.clients.present();
    return sessionFor(caller, { ...project(session.state), clients, workspaceState });
  }

  /** The projection as JSON text; null for an unknown session. */
  async describe(caller: Caller): Promise<string | null> {
    const session = await this.#readable(caller);
    return session ? sessionFor(caller, project(session.state)) : null;
  }

  /** A page of the log as NDJSON; null for an unknown session. */
  async events(caller: Caller, after: number, maxEvents: number): Promise<EventsPage | null> {
    const session = await this.#readable(caller);
    if (!session) return null;
    const gone = await session.archive.missing(after);
    if (session.isOver) return null;
    if (gone !== undefined) return { text: "", last: after, count: 0, gone };
    const { sessionId } = session.state;
    const { log } = session.journal;
    return log.readEnvelopes(sessionId, after, LIMITS.deliverChars, maxEvents, caller.redacted);
  }

  /** A piece of a segment file of the log; null for an unknown session. */
  async segment(caller: Caller, cursor: SegmentCursor, upTo: number): Promise<SegmentPage | null> {
    const session = await this.#readable(caller);
    if (!session) return null;
    await session.archive.reach(cursor.after);
    if (session.isOver) return null;
    const envelopes = session.journal.log.envelopes(session.state.sessionId, cursor.after, caller.redacted);
    return segmentPage(envelopes, cursor, upTo, LIMITS.deliverChars);
  }

  async #watch({ caller, after }: LogWatchRequest): Promise<Response> {
    const session = await this.#readable(caller);
    if (!session) return new Response("Unknown session", { status: 404 });
    const registration = registrationFor(caller, "watcher", holderOf(caller, session));
    const response = session.watchers.accept(after, registrationTags(registration), caller.redacted);
    if (response.webSocket) this.#access.admit(registration);
    return response;
  }

  // ---- access -----------------------------------------------------------------------------------------

  /** Ends everybody's access to the session, and what they have open; the work goes on. False: there is none. */
  async revoke(caller: Caller): Promise<boolean> {
    const session = this.#access.isIn(caller) ? await this.#session() : undefined;
    if (!session) return false;
    const { clients, watchers, index, state } = session;
    this.#access.revoke();
    watchers.dismiss("session revoked");
    const connections = clients.present().map(({ connection }) => connection);
    for (const connection of connections) clients.detach(connection);
    await Promise.all([
      ...connections.map((id) => this.env.ACP_CONNECTION_DO.getByName(id).endSocket(id, "session revoked")),
      index.remove(state),
    ]);
    return true;
  }

  /** Gives it back. */
  async restore({ tenant }: Pick<Caller, "tenant">): Promise<boolean> {
    const session = this.#access.owner?.tenant === tenant ? await this.#session() : undefined;
    if (!session) return false;
    this.#access.restore();
    await session.index.write(session.state);
    return true;
  }

  /** The token of a socket here was revoked. */
  endSocket(id: string, reason: string): void {
    closeRegistered(this.ctx, id, reason);
  }

  /** A client goes on with another token. */
  async renewed(connection: string, caller: Caller): Promise<void> {
    const session = await this.#session();
    if (!session?.clients.has(connection)) return;
    if (this.#access.mayRead(caller)) session.clients.renewed(connection, caller);
    else session.clients.detach(connection);
  }

  /** Takes in a session from elsewhere; null when there is one here. The caller must dispose of it. */
  import(order: ImportOrder): SessionImport | null {
    if (this.#access.owner || isStaged(this.ctx.storage.sql, this.#tables)) return null;
    if (!mayWork(order.caller, order.workspace)) throw new Error("Not this caller's to import");
    return new SessionImport(this.ctx.storage, this.#tables, order, (state, opening) => {
      const session = this.#inMemory();
      session.adopt(state);
      const conceal = (frame: Frame) => session.hidden.conceal(frame);
      session.record((batch) => imported(batch, order, opening, conceal));
    });
  }
}

function mayWork(caller: Caller, workspace: string): boolean {
  return roleOf(caller) === "controller" && mayUseWorkspace(caller, workspace);
}

/** Where a socket of the session is found. */
function holderOf({ tenant }: Caller, { state }: LiveSession): ObjectAddress {
  return { class: "session", name: objectName(tenant, state.sessionId) };
}

/** Connections send on only what they have read as a frame themselves. */
function ownFrame(raw: string): Frame {
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error("Not a frame");
  return frame;
}
