import { ErrorCode, errorResponse, resultResponse } from "../../../protocol/errors.ts";
import { type ResponseFrame, resultOf } from "../../../protocol/frame.ts";
import { ioOf } from "../../../protocol/methods.ts";
import { QUESTION } from "../../../protocol/question.ts";
import type { FactKind } from "../events/catalogue.ts";
import type { RequestOfAgent, SessionState } from "../state/state.ts";
import type { Batch } from "./batch.ts";
import { answerPermission, type Decision } from "./permissions.ts";
import { dismissQuestion, logQuestionAnswer } from "./questions.ts";
import { withdraw } from "./withdrawal.ts";

/** Answers to the agent's requests, by a client, a person over REST, the workspace's policy or a cancellation. */

/** Requests of the agent that clients may answer now. */
export function openToClients({ awaitingClient }: SessionState): number[] {
  return Object.entries(awaitingClient).flatMap(([seq, { by }]) => (by === "client" ? [Number(seq)] : []));
}

/** A client's own answer goes to the agent. The first answer of several counts. */
export function clientAnswer(
  batch: Batch,
  { connection, subject }: { connection: string; subject: string },
  seq: number,
  pending: RequestOfAgent,
  frame: ResponseFrame,
): void {
  const answer = batch.frame("client", "out", frame, { connection, re: seq, id: pending.id });
  if (pending.permission) {
    const outcome = resultOf(frame).outcome ?? null;
    const decision: Decision = { by: connection, subject, why: "answered" };
    batch.fact("gateway", "permission.responded", { request: seq, answer, outcome, ...decision });
  }
  if (pending.question)
    logQuestionAnswer(batch, seq, answer, frame, { by: connection, subject, why: "answered" });
  if (ioOf(pending.method)) logClientOperation(batch, seq, pending, answer, !("error" in frame.value));
  // A file or terminal request was shown to no other client.
  else withdraw(batch, seq, pending, connection);
}

/** Logs that a file or terminal request of the agent was served. */
export function logClientOperation(
  batch: Batch,
  request: number,
  { method }: RequestOfAgent,
  answer: number,
  ok: boolean,
): void {
  const kind = OPERATIONS.get(method);
  if (kind) batch.fact("gateway", kind, { request, answer, ok });
}

const OPERATIONS: ReadonlyMap<string, Extract<FactKind, `client.${string}`>> = new Map([
  ["fs/read_text_file", "client.fs.read"],
  ["fs/write_text_file", "client.fs.write"],
  ["terminal/create", "client.terminal.create"],
  ["terminal/output", "client.terminal.output"],
  ["terminal/wait_for_exit", "client.terminal.wait_for_exit"],
  ["terminal/kill", "client.terminal.kill"],
  ["terminal/release", "client.terminal.release"],
]);

/** Answers the open requests of a cancelled turn, because no client may be there to do it. */
export function cancelRequestsOfAgent(batch: Batch, by: string): void {
  for (const seq of openToClients(batch.state)) {
    const pending = batch.state.awaitingClient[seq] as RequestOfAgent;
    if (pending.permission)
      answerPermission(batch, seq, { outcome: "cancelled" }, { by, why: "the turn was cancelled" });
    if (pending.question)
      dismissQuestion(batch, seq, pending, "cancel", { by, why: "the turn was cancelled" });
    if (pending.question || pending.method !== QUESTION) continue;
    batch.frame("gateway", "out", resultResponse(pending.id, { action: "cancel" }), { re: seq });
    withdraw(batch, seq, pending);
  }
}

/** The agent cancelled its own request: it gets the answer that is due. Clients have its cancellation already. */
export function cancelledByAgent(batch: Batch, seq: number, pending: RequestOfAgent): void {
  const error = { code: ErrorCode.requestCancelled, message: "Request cancelled" };
  batch.frame("gateway", "out", errorResponse(pending.id, error), { re: seq });
  logWithdrawn(batch, seq, pending, "the agent cancelled its request");
}

/** Logs the end of a process with `logEnd`, which ends its requests, and tells the clients that were asked. */
export function endRequestsOfAgent(batch: Batch, why: string, logEnd: () => void): void {
  const open = openToClients(batch.state).map(
    (seq) => [seq, batch.state.awaitingClient[seq] as RequestOfAgent] as const,
  );
  logEnd();
  for (const [seq, pending] of open) {
    logWithdrawn(batch, seq, pending, why);
    withdraw(batch, seq, pending);
  }
}

/** Nobody answered the permission request or question, and no answer is needed any more. */
function logWithdrawn(
  batch: Batch,
  request: number,
  { permission, question }: RequestOfAgent,
  why: string,
): void {
  if (permission) batch.fact("gateway", "permission.withdrawn", { request, why });
  if (question) batch.fact("gateway", "question.withdrawn", { request, why });
}
