import { newId } from "../durable/new-id.ts";
import { type Caller, roleOf } from "../protocol/caller.ts";
import { askedMeaning } from "../protocol/close-meaning.ts";
import { INTERNAL_ERROR } from "../protocol/errors.ts";
import { type Frame, mustReadFrame, type ResponseFrame } from "../protocol/frame.ts";
import { parseClientRequestId } from "../protocol/ids.ts";
import { readerRequest } from "../protocol/reader-messages.ts";
import { accepted, type Refused, type Result } from "../protocol/refusal.ts";
import type {
  ClientFrames,
  Forked,
  ForkOrder,
  LeaveOrder,
  Left,
  OpenRequest,
  ReceivedFrames,
} from "../protocol/rpc.ts";
import { takeCautiously } from "./cautious-taking.ts";
import { isUnopened } from "./core/decide/agent-process.ts";
import { openToClients } from "./core/decide/agent-requests.ts";
import type { Batch } from "./core/decide/batch.ts";
import { broughtBy } from "./core/decide/brought-members.ts";
import { anticipate, type ClientInput, clientFrame, open, refuseFrame } from "./core/decide/client-frames.ts";
import { abandonRequests, endsSession } from "./core/decide/leaving.ts";
import { close } from "./core/decide/process-end.ts";
import { noteSkipped, skipFrame } from "./core/decide/skipped-frame.ts";
import { charsOf, type FrameEvent } from "./core/events/event.ts";
import { setupInClientForm } from "./core/read/client-form.ts";
import { currentSetup } from "./core/read/current-setup.ts";
import { attachmentFor } from "./core/read/replay.ts";
import type { BroughtMember } from "./core/state/brought-members.ts";
import type { SessionState } from "./core/state/state.ts";
import type { Recorder } from "./log/journal.ts";
import type { LoginIntake } from "./login-intake.ts";
import { presenceOf } from "./readers/presence.ts";
import type { SessionContext, SessionParts } from "./session-parts.ts";

type Parts = Pick<SessionParts, "journal" | "clients" | "concealed" | "readBudget" | "frameTries">;

/** The input of clients. The caller is authorised before it gets here. */
export class ClientIntake {
  readonly #context: Pick<SessionContext, "ctx" | "limits">;
  readonly #parts: Parts;
  readonly #record: Recorder;
  readonly #logins: LoginIntake;

  constructor(
    context: Pick<SessionContext, "ctx" | "limits">,
    parts: Parts,
    record: Recorder,
    logins: LoginIntake,
  ) {
    this.#context = context;
    this.#parts = parts;
    this.#record = record;
    this.#logins = logins;
  }

  get #state() {
    return this.#parts.journal.requireState();
  }

  // ---- opening ----------------------------------------------------------------------------------------

  /** Attaches the client that a new session is made for. */
  attachFirst({ connection, caller, raw, subscriptions }: OpenRequest): void {
    const attachment = { seq: 0, start: 0, merge: false, offers: [] };
    const params = raw === null ? undefined : mustReadFrame(raw).value.params;
    this.#parts.clients.attach(connection, attachment, presenceOf(caller, Date.now(), subscriptions, params));
  }

  open({ connection, caller, workspace, agent, raw, login }: OpenRequest): void {
    const owner = { tenant: caller.tenant, owner: caller.subject, workspace, agent };
    this.#record((batch) => {
      if (raw === null) return anticipate(batch, owner);
      open(batch, connection, this.#parts.concealed.conceal(mustReadFrame(raw)), owner);
      this.#logins.keep(batch, login);
      this.#parts.clients.setDirectory(connection, batch.state.identity?.cwd ?? "");
    });
  }

  /** Whether `connection` may open the session: it has asked for it, and no agent session exists yet. */
  isAwaitingOpening(connection: string, agent: string): boolean {
    if (!this.#parts.clients.has(connection)) return false;
    const isSameAgent = agent === "" || this.#state.identity?.agent === agent;
    return isSameAgent && isUnopened(this.#state);
  }

  /** Whether the session belongs to `subject` and this connection of it is attached. */
  isOwnedBy(connection: string, subject: string): boolean {
    return this.#state.identity?.owner === subject && this.#parts.clients.has(connection);
  }

  /** Attaches the client that asked for a fork, after the copied history. */
  attachToFork({ connection, caller, subscriptions, opening, login }: ForkOrder): void {
    const { lastSeq: seq } = this.#state;
    const attachment = { seq, start: seq, merge: false, offers: [] };
    const presence = presenceOf(caller, Date.now(), subscriptions, JSON.parse(opening));
    this.#parts.clients.attach(connection, attachment, presence);
    if (login) this.#record((batch) => this.#logins.keep(batch, login));
  }

  /** The answer to the client that asked for the fork. */
  forkedTo(connection: string): Forked {
    const attach = this.#parts.clients.attachmentOf(connection)?.seq ?? this.#state.lastSeq;
    const { report } = this.#state;
    const setup = JSON.stringify(currentSetup(report, (seq) => this.#parts.journal.frameAt(seq)));
    return { attach, setup: setupInClientForm(setup, this.#parts.clients.abilitiesOf(connection)) };
  }

  // ---- frames -----------------------------------------------------------------------------------------

  /** Takes the frames that have not been taken before. A request attaches its client. */
  async receive(order: ClientFrames): Promise<Result<ReceivedFrames>> {
    const fresh = this.#freshOf(order);
    if (fresh.length === 0) return accepted({ failed: [] });
    const refusal = this.#refusalOf(order);
    if (refusal) return refusal;
    return accepted({ failed: order.repeated ? await this.#retake(order) : this.#takeAll(order, fresh) });
  }

  #freshOf({ connection, caller, numbers, frames }: ClientFrames): NumberedFrame[] {
    const known = this.#parts.clients.lastReceived(connection);
    return frames
      .map((raw, i) => ({ raw, number: numbers[i] as number }))
      .filter(({ number }) => number > known)
      .filter(({ raw }) => isAllowed(caller, raw));
  }

  /** Takes frames that an earlier call brought. They may have ended the object. Returns the numbers of those that failed. */
  async #retake(order: ClientFrames): Promise<number[]> {
    const { frameTries } = this.#parts;
    const { connection } = order;
    const failed: number[] = [];
    await takeCautiously(this.#context.ctx, () => this.#freshOf(order), this.#context.limits.itemTries, {
      begin: (group) => frameTries.begin(connection, group[0]?.number ?? 0, group.length),
      take: (group) => void failed.push(...this.#takeAll(order, group)),
      skip: (frame, ends) => void (this.#skip(order, frame, ends) || failed.push(frame.number)),
      end: () => frameTries.end(connection),
    });
    return failed;
  }

  /** Takes frames, or all of them that can be taken. Returns the numbers of the others. */
  #takeAll(client: FrameSender, frames: readonly NumberedFrame[]): number[] {
    try {
      this.#take(client, frames);
      return [];
    } catch {
      return this.#takeOneByOne(client, frames);
    }
  }

  /**
   * Answers a frame that ended the object too often through the log. False: its connection has to answer. The answer in
   * the log may end the object too; after as many tries again nothing is logged.
   */
  #skip({ connection, caller }: FrameSender, { raw, number }: NumberedFrame, ends: number): boolean {
    const { clients } = this.#parts;
    console.error("frame skipped", { connection, number, chars: raw.length, ends });
    if (ends >= 2 * this.#context.limits.itemTries) return false;
    const isAttached = clients.has(connection);
    const isSkipped = isDone(() =>
      this.#record((batch) => {
        if (!isAttached) return noteSkipped(batch, raw, ends);
        skipFrame(batch, this.#input({ connection, caller }), raw, ends);
        clients.setReceived(connection, number);
      }),
    );
    return isAttached && isSkipped;
  }

  /** The refusal of a client that has no place here, or of a reader whose kind has attached too often. */
  #refusalOf({ connection, caller }: FrameSender): Refused | undefined {
    const { clients, readBudget } = this.#parts;
    const isReader = roleOf(caller) === "observer";
    return (
      clients.placeRefusal(connection, caller) ??
      (isReader ? readBudget.refusal(caller, Date.now()) : undefined)
    );
  }

  /** Takes all frames that can be taken, after some of them could not. Returns the numbers of those. */
  #takeOneByOne(client: FrameSender, frames: readonly NumberedFrame[]): number[] {
    const isAlone = frames.length === 1;
    const failed = frames.filter((frame) => isAlone || !isDone(() => this.#take(client, [frame])));
    const unrecorded = failed.filter(
      (frame) => !this.#mustRecord(client, frame) || !isDone(() => this.#recordFailure(client, frame)),
    );
    return unrecorded.map(({ number }) => number);
  }

  /**
   * Whether the failure of a frame has to be in the log. A frame before a received one does not count when it is
   * repeated, so its sender would never get an answer. Nor would the agent, if the frame was the answer.
   */
  #mustRecord({ connection }: FrameSender, { raw, number }: NumberedFrame): boolean {
    const { clients } = this.#parts;
    if (!clients.has(connection)) return false;
    return number < clients.lastReceived(connection) || mustReadFrame(raw).kind === "response";
  }

  #recordFailure({ connection, caller }: FrameSender, { raw, number }: NumberedFrame): void {
    const { clients, readBudget } = this.#parts;
    const received = Math.max(number, clients.lastReceived(connection));
    this.#record((batch) => {
      refuseFrame(batch, this.#input({ connection, caller }), frameFrom(caller, raw), INTERNAL_ERROR);
      clients.setReceived(connection, received);
      if (roleOf(caller) === "observer") readBudget.spend(caller, sizeOf(batch), batch.at);
    });
  }

  #take(sender: FrameSender, fresh: readonly NumberedFrame[]): void {
    const { clients, readBudget } = this.#parts;
    const { connection, caller } = sender;
    this.#record((batch) => {
      for (const { raw } of fresh) this.#takeFrame(batch, sender, frameFrom(caller, raw));
      if (roleOf(caller) === "controller") this.#logins.keep(batch, sender.login);
      if (clients.has(connection)) clients.setReceived(connection, fresh.at(-1)?.number ?? 0);
      if (roleOf(caller) === "observer") readBudget.spend(caller, sizeOf(batch), batch.at);
    });
  }

  #takeFrame(batch: Batch, { connection, caller, subscriptions }: FrameSender, given: Frame): void {
    const { clients, concealed } = this.#parts;
    const isAttached = clients.has(connection);
    // A client that is not attached has been asked nothing, or has left. Only a request has an answer to attach for.
    if (!isAttached && given.kind !== "request") return;
    const asked = given.kind === "response" ? askedMethod(batch.state, given) : undefined;
    const brings = this.#broughtBy(batch, caller, given);
    const refusal = concealed.refusalFor(given, asked, brings.length > 0);
    if (refusal) return refuseFrame(batch, this.#input({ connection, caller }), given, refusal);
    const { frame, keep } = concealed.prepare(given, asked, brings.length > 0);
    const attachment = attachmentFor(frame, batch.nextSeq, isAttached, openToClients(batch.state));
    const presence = presenceOf(caller, batch.at, subscriptions, frame.value.params);
    if (attachment) clients.attach(connection, attachment, presence);
    const before = Object.values(batch.state.brought ?? {});
    clientFrame(batch, { ...this.#input({ connection, caller }), brings }, frame, newTurnId);
    const event = keep && batch.eventOf(frame);
    const brought = Object.values(batch.state.brought ?? {});
    if (event && isForAgent(event, brings, brought)) keep(event.seq);
    const superseded = before.filter((seq) => !brought.includes(seq));
    if (superseded.length > 0) this.#forgetBrought(batch, superseded);
  }

  /** The members of the opening that a client brings along. A reader brings none. */
  #broughtBy(batch: Batch, caller: Caller, given: Frame): BroughtMember[] {
    const reveal = (raw: string) => mustReadFrame(this.#parts.concealed.reveal(raw));
    return roleOf(caller) === "controller" ? broughtBy(batch, given, reveal) : [];
  }

  /** A process that is opening the session may yet have to get the values of an earlier opening. */
  #forgetBrought(batch: Batch, superseded: readonly number[]): void {
    if (batch.state.agent === "starting") return;
    this.#parts.concealed.forget(superseded.flatMap((seq) => batch.findFrame(seq)?.frame ?? []));
  }

  #input({ connection, caller }: Pick<FrameSender, "connection" | "caller">): ClientInput {
    const { clients } = this.#parts;
    const abilities = clients.abilitiesOf(connection);
    const { as } = clients.attachmentOf(connection) ?? {};
    return { connection, caller, answering: clients.answering(), abilities, as };
  }

  // ---- attachments ------------------------------------------------------------------------------------

  /**
   * Detaches a client that leaves, or ends the session where that is the meaning of the client's `session/close`. An
   * order that comes twice counts once.
   */
  async leave(connection: string, order: LeaveOrder): Promise<Result<Left>> {
    const { caller, number, closes, frame, subscriptions } = order;
    const { clients } = this.#parts;
    const before = clients.departureOf(connection);
    if (before?.number === number) return accepted({ ended: false, open: before.open });
    const isTaken = frame !== null && number <= clients.lastReceived(connection);
    if (isTaken) return accepted(ENDED);
    if (closes && this.#endsSession(connection, frame)) {
      const sender = { connection, caller, subscriptions };
      const refusal = this.#refusalOf(sender);
      if (refusal) return refusal;
      if (frame === null) this.#record((batch) => close(batch, connection));
      else this.#take(sender, [{ raw: frame, number }]);
      return accepted(ENDED);
    }
    let open: Left["open"] = [];
    let stopped: Promise<void> | undefined;
    if (clients.has(connection))
      this.#record((batch) => {
        open = roleOf(caller) === "observer" ? [] : abandonRequests(batch, connection);
        stopped = clients.leave(connection, { number, open });
      });
    await stopped;
    return accepted({ ended: false, open });
  }

  #endsSession(connection: string, frame: string | null): boolean {
    const { clients } = this.#parts;
    const as = clients.attachmentOf(connection)?.as;
    const names = as === undefined ? [connection] : [connection, as];
    const asked = frame === null ? undefined : askedMeaning(mustReadFrame(frame));
    return endsSession(this.#state, { names, controllers: clients.controllers() }, asked);
  }

  /** The client has room again. Its connection says where the cursor goes on. */
  wake(connection: string): void {
    this.#parts.clients.wake(connection);
  }

  /** Detaches a client that has read a closed session to its end. False: more may follow. */
  release(connection: string): boolean {
    const { clients } = this.#parts;
    const { closed, lastSeq } = this.#state;
    if (!closed || !clients.hasRead(connection, lastSeq)) return false;
    clients.detach(connection);
    return true;
  }

  /** The client continues with another token; `mayRead` says whether that token allows reading the session. */
  renew(connection: string, caller: Caller, mayRead: boolean): void {
    const { clients } = this.#parts;
    if (!clients.has(connection)) return;
    if (mayRead) clients.renew(connection, caller);
    else clients.drop(connection);
  }
}

/** The client that sends frames. */
type FrameSender = Pick<ClientFrames, "connection" | "caller" | "subscriptions" | "login">;

const ENDED: Left = { ended: true, open: [] };

type NumberedFrame = { readonly raw: string; readonly number: number };

/** A client's frame, or what a reader may say of it. */
function frameFrom(caller: Caller, raw: string): Frame {
  const frame = mustReadFrame(raw);
  return (roleOf(caller) === "observer" ? readerRequest(frame) : undefined) ?? frame;
}

/** A reader's connection refuses everything but requests to read; anything else is dropped before it is written. */
function isAllowed(caller: Caller, raw: string): boolean {
  return roleOf(caller) === "controller" || readerRequest(mustReadFrame(raw)) !== undefined;
}

/** Whether an agent may get the frame: no answer that nobody waits for, and no members that the workspace refuses. */
function isForAgent(
  { frame, route, seq }: FrameEvent,
  brings: readonly BroughtMember[],
  brought: readonly number[],
): boolean {
  if (brings.length > 0) return brought.includes(seq);
  return frame.kind !== "response" || route.stop === undefined;
}

function sizeOf({ events }: Batch): number {
  return events.reduce((sum, event) => sum + charsOf(event), 0);
}

/** The method of the agent's request that a response answers, if the request is open. */
function askedMethod({ awaitingClient }: SessionState, { value }: ResponseFrame): string | undefined {
  const seq = parseClientRequestId(value.id)?.seq;
  return seq === undefined ? undefined : awaitingClient[seq]?.method;
}

/** Whether an input was recorded. The log of the Worker has the reason of a failure. */
function isDone(input: () => void): boolean {
  try {
    input();
    return true;
  } catch {
    return false;
  }
}

function newTurnId(): string {
  return newId("turn");
}
