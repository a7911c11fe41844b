import { newId } from "../durable/new-id.ts";
import type { Caller } from "../protocol/caller.ts";
import { ErrorCode } from "../protocol/errors.ts";
import { mustReadFrame } from "../protocol/frame.ts";
import { clientRequestId } from "../protocol/ids.ts";
import type { PermissionChoice, PermissionSummary } from "../protocol/permission.ts";
import { accepted, type Refused, type Result, refused, unknownPermission } from "../protocol/refusal.ts";
import type { ClientFrames, Forked, ForkOrder, OpenRequest } from "../protocol/rpc.ts";
import { isUnopened } from "./core/decide/agent-process.ts";
import { openToClients } from "./core/decide/agent-requests.ts";
import { anticipate, clientFrame, open, relayLogin } from "./core/decide/client-frames.ts";
import { choosePermission } from "./core/decide/permissions.ts";
import { close } from "./core/decide/process-end.ts";
import { dropQueued } from "./core/decide/queue.ts";
import { permissionSummary } from "./core/read/permission-summary.ts";
import { attachmentFor } from "./core/read/replay.ts";
import { currentSetup } from "./core/state/agent-settings.ts";
import type { Recorder } from "./log/journal.ts";
import { presenceOf } from "./readers/presence.ts";
import type { SessionParts } from "./session-parts.ts";

/** The input of clients, and of people who act in place of a client. The caller is authorised before it gets here. */
export class ClientIntake {
  readonly #parts: Pick<SessionParts, "journal" | "clients" | "concealed">;
  readonly #record: Recorder;

  constructor(parts: Pick<SessionParts, "journal" | "clients" | "concealed">, record: Recorder) {
    this.#parts = parts;
    this.#record = record;
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

  open({ connection, caller, workspace, agent, raw }: OpenRequest): void {
    const owner = { tenant: caller.tenant, owner: caller.subject, workspace, agent };
    this.#record((batch) => {
      if (raw === null) anticipate(batch, owner);
      else open(batch, connection, this.#parts.concealed.conceal(mustReadFrame(raw)), owner);
    });
  }

  /** Whether `connection` may open the session: it has asked for it, and no agent session exists yet. */
  isAwaitingOpening(connection: string, agent: string): boolean {
    if (!this.#parts.clients.has(connection)) return false;
    const isSameAgent = agent === "" || this.#state.identity?.agent === agent;
    return isSameAgent && isUnopened(this.#state);
  }

  /** Attaches the client that asked for a fork, after the copied history. */
  attachToFork({ connection, caller, subscriptions, opening }: ForkOrder): Forked {
    const { lastSeq: attach, report } = this.#state;
    const attachment = { seq: attach, start: attach, merge: false, offers: [] };
    const presence = presenceOf(caller, Date.now(), subscriptions, JSON.parse(opening));
    this.#parts.clients.attach(connection, attachment, presence);
    return { attach, setup: JSON.stringify(currentSetup(report)) };
  }

  // ---- frames -----------------------------------------------------------------------------------------

  /** Takes the frames that have not been taken before. A `session/load` or `session/resume` attaches its client. */
  receive({ connection, caller, numbers, frames, subscriptions }: ClientFrames): Result<undefined> {
    const { clients, concealed } = this.#parts;
    const known = clients.lastReceived(connection);
    const fresh = frames
      .filter((_, i) => (numbers[i] as number) > known)
      .map((raw) => concealed.conceal(mustReadFrame(raw)));
    if (fresh.length === 0) return accepted();
    this.#record((batch) => {
      for (const frame of fresh) {
        const isAttached = clients.has(connection);
        const attachment = attachmentFor(frame, batch.nextSeq, isAttached, openToClients(batch.state));
        const presence = presenceOf(caller, batch.at, subscriptions, frame.value.params);
        if (attachment) clients.attach(connection, attachment, presence);
        clientFrame(batch, { connection, caller, answering: clients.answering() }, frame, newTurnId);
      }
      clients.setReceived(connection, numbers.at(-1) as number);
    });
    return accepted();
  }

  /** Gives the agent a login or a logout that the agent of another session has accepted. */
  relay(raw: string): Result<undefined> {
    this.#record((batch) => relayLogin(batch, mustReadFrame(raw)));
    return accepted();
  }

  // ---- in place of a client ---------------------------------------------------------------------------

  answerPermission(caller: Caller, seq: number, choice: PermissionChoice, by: string): Result<undefined> {
    let result: Result<undefined> = this.#unknownPermission(seq);
    if (!this.#state.awaitingClient[seq]?.permission || !caller.scopes.includes("permission:answer"))
      return result;
    this.#record((batch) => {
      result = choosePermission(batch, seq, choice, { by, subject: caller.subject, why: "answered" });
    });
    return result;
  }

  permissionSummary(seq: number): Result<PermissionSummary> {
    if (!this.#state.awaitingClient[seq]?.permission) return this.#unknownPermission(seq);
    const params = this.#parts.journal.frameAt(seq)?.frame.value.params;
    const summary = permissionSummary(this.#state, seq, params);
    return summary ? accepted(summary) : this.#unknownPermission(seq);
  }

  #unknownPermission(seq: number): Refused {
    return refused(unknownPermission(clientRequestId(this.#state.sessionId, seq)));
  }

  unqueue(turnId: string): Result<undefined> {
    const queued = this.#state.queue.find((item) => item.turnId === turnId);
    if (!queued) return NOT_QUEUED;
    const error = { code: ErrorCode.requestCancelled, message: "Taken out of the queue" };
    this.#record((batch) => dropQueued(batch, queued, error));
    return accepted();
  }

  close(by: string): Result<undefined> {
    if (this.#state.closed) return refused({ reason: "conflict", message: "The session is closed already" });
    this.#record((batch) => close(batch, by));
    return accepted();
  }

  // ---- attachments ------------------------------------------------------------------------------------

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

/** The prompt was never queued, or its turn has begun. */
export const NOT_QUEUED: Refused = refused({ reason: "not-found", message: "No such prompt is waiting" });

function newTurnId(): string {
  return newId("turn");
}
