import type { Caller } from "../protocol/caller.ts";
import { ErrorCode, resultResponse } from "../protocol/errors.ts";
import { type Frame, isFault, readFrame } from "../protocol/frame.ts";
import { type AgentRequest, clientRequestId } from "../protocol/ids.ts";
import { FAULTS } from "../protocol/jsonrpc-faults.ts";
import type { PermissionChoice, PermissionSummary } from "../protocol/permission.ts";
import { QUESTION, type QuestionAnswer, type QuestionSummary } from "../protocol/question.ts";
import { badAnswer } from "../protocol/question-answer.ts";
import {
  accepted,
  type Refused,
  type Result,
  refused,
  unknownPermission,
  unknownQuestion,
} from "../protocol/refusal.ts";
import type { ChangedSession, SessionChange } from "../protocol/session-change.ts";
import { choosePermission } from "./core/decide/permissions.ts";
import { close } from "./core/decide/process-end.ts";
import { answerQuestion } from "./core/decide/questions.ts";
import { dropQueued } from "./core/decide/queue.ts";
import { type Changer, changeSession } from "./core/decide/session-change.ts";
import { permissionSummary } from "./core/read/permission-summary.ts";
import { questionParams, questionSummary } from "./core/read/question-summary.ts";
import { titleOf } from "./core/state/session-title.ts";
import type { Recorder } from "./log/journal.ts";
import type { SessionParts } from "./session-parts.ts";

type Parts = Pick<SessionParts, "journal" | "concealed">;

/** The input of people who act without a client: over REST, or by a link. The caller is authorised before it gets here. */
export class PersonIntake {
  readonly #parts: Parts;
  readonly #record: Recorder;

  constructor(parts: Parts, record: Recorder) {
    this.#parts = parts;
    this.#record = record;
  }

  get #state() {
    return this.#parts.journal.requireState();
  }

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
    const { journal } = this.#parts;
    const frameAt = (at: number) => journal.frameAt(at)?.frame;
    const summary = permissionSummary(this.#state, seq, frameAt(seq)?.value.params, frameAt);
    return summary ? accepted(summary) : this.#unknownPermission(seq);
  }

  #unknownPermission(seq: number): Refused {
    return notPending({ sessionId: this.#state.sessionId, seq });
  }

  /** The content of an answer is concealed like that of a client's own answer. */
  answerQuestion(caller: Caller, seq: number, answer: QuestionAnswer, by: string): Result<undefined> {
    const { concealed } = this.#parts;
    const pending = this.#state.awaitingClient[seq];
    if (!pending?.question || !caller.scopes.includes("permission:answer")) return this.#unknownQuestion(seq);
    const problem = badAnswer(questionParams(this.#state, seq, this.#frameAt(seq)), answer);
    if (problem) return refused(problem);
    const given = readFrame(resultResponse(pending.id, answer));
    if (isFault(given)) return refused({ reason: "invalid", message: FAULTS[given.fault].message });
    const refusal = concealed.refusalFor(given, QUESTION);
    if (refusal) return refused({ reason: "invalid", message: refusal.message });
    const { frame, keep } = concealed.prepare(given, QUESTION);
    const decision = { by, subject: caller.subject, why: "answered" };
    this.#record((batch) => {
      const logged = answerQuestion(batch, seq, frame, answer.action, decision);
      if (logged !== undefined) keep?.(logged);
    });
    return accepted();
  }

  questionSummary(seq: number): Result<QuestionSummary> {
    const summary = questionSummary(this.#state, seq, this.#frameAt(seq));
    return summary ? accepted(summary) : this.#unknownQuestion(seq);
  }

  #frameAt(seq: number): Frame | undefined {
    return this.#parts.journal.frameAt(seq)?.frame;
  }

  #unknownQuestion(seq: number): Refused {
    return notAsked({ sessionId: this.#state.sessionId, seq });
  }

  unqueue(turnId: string): Result<undefined> {
    const queued = this.#state.queue.find((item) => item.turnId === turnId);
    if (!queued) return NOT_QUEUED;
    const error = { code: ErrorCode.requestCancelled, message: "Taken out of the queue" };
    this.#record((batch) => dropQueued(batch, queued, error));
    return accepted();
  }

  change(change: SessionChange, changer: Changer): Result<ChangedSession> {
    this.#record((batch) => changeSession(batch, change, changer));
    return accepted({ title: titleOf(this.#state), archived: this.#state.archived ?? false });
  }

  close(by: string): Result<undefined> {
    if (this.#state.closed) return refused({ reason: "conflict", message: "The session is closed already" });
    this.#record((batch) => close(batch, by));
    return accepted();
  }
}

/** The prompt was never queued, or its turn has begun. */
export const NOT_QUEUED: Refused = refused({ reason: "not-found", message: "No such prompt is waiting" });

/** The request does not exist, or was answered, or belongs to a session that the caller may not see. */
export function notPending({ sessionId, seq }: AgentRequest): Refused {
  return refused(unknownPermission(clientRequestId(sessionId, seq)));
}

/** As `notPending`, for a question. */
export function notAsked({ sessionId, seq }: AgentRequest): Refused {
  return refused(unknownQuestion(clientRequestId(sessionId, seq)));
}
