import { ErrorCode, errorResponse } from "../../../protocol/errors.ts";
import { type Frame, type RequestFrame, rewrite } from "../../../protocol/frame.ts";
import { isProcessRequest } from "../state/fold-frame.ts";
import type { KeyedPrompt } from "../state/state.ts";
import { requestProcess } from "./agent-process.ts";
import { refuseClient } from "./answers.ts";
import type { Batch } from "./batch.ts";
import { badPromptKey, promptKey } from "./idempotency-key.ts";
import { isRestoring, laterMembersRefusal, promptRefusal } from "./queue.ts";
import { tooMany } from "./request-limits.ts";

/** Prompts of clients: each runs at once, waits in the queue, or repeats a prompt that has run. */

export type NewTurnId = () => string;

/** A prompt runs once, however often a client repeats it under the same idempotency key. */
export function takePrompt(
  batch: Batch,
  connection: string,
  frame: RequestFrame,
  newTurnId: NewTurnId,
): void {
  const { state } = batch;
  const known = state.prompts.find(({ key }) => key === promptKey(frame));
  if (known) return repeatPrompt(batch, connection, frame, known);
  const problem = badPromptKey(frame);
  const refusal = problem
    ? { code: ErrorCode.invalidParams, message: problem }
    : (promptRefusal(state, batch.limits) ?? (state.run ? laterMembersRefusal(state.run, frame) : undefined));
  if (refusal) return refuseClient(batch, connection, frame, refusal);
  dispatch(batch, connection, frame, newTurnId());
}

/** Gives the repeating client the logged answer. If there is none yet, the client gets the answer when it comes. */
function repeatPrompt(
  batch: Batch,
  connection: string,
  frame: RequestFrame,
  { seq, answer }: KeyedPrompt,
): void {
  const id = frame.idText;
  const refusal = tooMany(
    batch.limits,
    batch.state.awaitingAgent[seq]?.also?.length ?? 0,
    "This prompt is already awaited by",
  );
  if (answer === null && refusal) return refuseClient(batch, connection, frame, refusal);
  if (answer === null) {
    batch.frame("client", "out", frame, { connection, stop: "gateway", repeats: seq });
    return;
  }
  const re = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  const archived = { code: ErrorCode.notFound, message: "The prompt has run; its answer is in the archive" };
  const logged = batch.findFrame(answer);
  const raw = logged ? rewrite(logged.frame, { id }) : errorResponse(id, archived);
  batch.frame("gateway", "in", raw, { to: connection, re });
}

/** Sends a frame to the agent, or puts it into the queue when it has to wait. */
export function dispatch(batch: Batch, connection: string, frame: Frame, turnId: string | null): void {
  const { state } = batch;
  const context = turnId === null ? state.context : { ...state.context, turnId };
  const waits = isProcessRequest(frame)
    ? !state.run?.initialized || state.run.stopping
    : state.agent !== "ready" ||
      isRestoring(state) ||
      (turnId !== null && (state.turn !== null || state.queue.length > 0));
  const seq = batch.frame(
    "client",
    "out",
    frame,
    waits ? { connection, stop: "held" } : { connection },
    context,
  );
  if (waits) {
    batch.fact("gateway", "queue.enqueued", { seq, turnId, position: state.queue.length }, context);
    requestProcess(batch);
  } else if (turnId !== null) {
    batch.fact("gateway", "turn.started", { turnId, prompt: seq }, context);
  }
}
