import { resultResponse } from "../../../protocol/errors.ts";
import {
  type Frame,
  paramsOf,
  type RequestFrame,
  type ResponseFrame,
  resultOf,
} from "../../../protocol/frame.ts";
import { isRecord, textOrNull } from "../../../protocol/json-value.ts";
import {
  abilityFor,
  QUESTION_ACTIONS,
  type QuestionAction,
  questionModeOf,
} from "../../../protocol/question.ts";
import type { RequestOfAgent } from "../state/state.ts";
import { recordWithViolations } from "./agent-violations.ts";
import type { Batch } from "./batch.ts";
import type { Decision } from "./permissions.ts";
import { withdraw } from "./withdrawal.ts";

/** Questions of the agent, which wait for an answer whether a client is attached or not. */

/** Puts a question to every client that is able to ask its user, now or later. The parameters are checked before. */
export function askQuestion(batch: Batch, frame: RequestFrame): void {
  const params = paramsOf(frame);
  const mode = questionModeOf(params) ?? "form";
  const request = recordWithViolations(batch, () =>
    batch.frame("agent", "in", frame, { having: abilityFor(mode) }),
  );
  const { message, requestedSchema = null, url = null, toolCallId = null } = params;
  batch.fact("gateway", "question.requested", { request, mode, message, requestedSchema, url, toolCallId });
}

/**
 * Whether a client's response answers a question. An error or a malformed answer is none: another person may know one. The
 * values of a form are concealed here, so their types are the agent's to check.
 */
export function isQuestionAnswer(frame: ResponseFrame): boolean {
  const { action, content } = resultOf(frame);
  const isContent = content === undefined || content === null || isRecord(content);
  return isContent && QUESTION_ACTIONS.some((known) => known === action);
}

/** Logs a client's own answer. */
export function logQuestionAnswer(
  batch: Batch,
  request: number,
  answer: number,
  frame: ResponseFrame,
  decision: Decision,
): void {
  const action = textOrNull(resultOf(frame).action);
  batch.fact("gateway", "question.responded", { request, answer, action, ...decision });
}

/** Gives the agent an answer that no client's own frame gives. The credentials in `response` are concealed. */
export function answerQuestion(
  batch: Batch,
  seq: number,
  response: Frame | string,
  action: QuestionAction,
  decision: Decision,
): number | undefined {
  const pending = batch.state.awaitingClient[seq];
  if (!pending?.question) return undefined;
  const answer = batch.frame("gateway", "out", response, { re: seq });
  batch.fact("gateway", "question.responded", { request: seq, answer, action, ...decision });
  withdraw(batch, seq, pending, decision.by);
  return answer;
}

/** Ends a question without contents. */
export function dismissQuestion(
  batch: Batch,
  seq: number,
  { id }: RequestOfAgent,
  action: Exclude<QuestionAction, "accept">,
  decision: Decision,
): void {
  answerQuestion(batch, seq, resultResponse(id, { action }), action, decision);
}
