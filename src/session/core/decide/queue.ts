import { ErrorCode, type RpcError } from "../../../protocol/errors.ts";
import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import type { Limits } from "../../../protocol/limits.ts";
import { isLogin } from "../../../protocol/methods.ts";
import { allowsEverything, checkLaterMembers } from "../../../protocol/opening-rules.ts";
import type { Queued, RequestToAgent, SessionState } from "../state/state.ts";
import { isSetter } from "../state/wanted-settings.ts";
import { settle } from "./answers.ts";
import type { Batch } from "./batch.ts";

/** The queue of prompts and other frames that wait for a process or for the end of a turn. */

/** The reason why the session takes no prompt now, if there is one. The history stays readable. */
export function promptRefusal(state: SessionState, limits: Limits): RpcError | undefined {
  const refuse = (message: string): RpcError => ({ code: ErrorCode.invalidRequest, message });
  if (state.closed) return refuse("The session is closed: load or resume it first");
  if (state.historyChars > limits.historyChars)
    return refuse(`The session's history is full (${limits.historyChars} characters)`);
  if (state.queue.length >= limits.queueLength)
    return refuse(`The session's queue is full (${limits.queueLength} prompts)`);
  return undefined;
}

/** Whether a request needs no agent session. A state of release 0.1.0 does not say so of logins. */
function isForProcess(request: RequestToAgent | undefined): boolean {
  return request?.process === true || isLogin(request?.method ?? "");
}

/** Sends a process that is up the requests that need no agent session: without a login the session may not open. */
export function drainForProcess(batch: Batch): void {
  const { queue, awaitingAgent } = batch.state;
  for (const { seq, turnId } of queue.filter((item) => isForProcess(awaitingAgent[item.seq])))
    batch.fact("gateway", "queue.dequeued", { seq, turnId });
}

/** Whether the process is being given the settings of the process before it. */
export function isRestoring({ wanted, awaitingAgent }: SessionState): boolean {
  return (
    wanted !== undefined &&
    Object.values(awaitingAgent).some(
      ({ method, connection }) => connection === undefined && isSetter(method),
    )
  );
}

/** Sends waiting frames in order. A prompt goes when no turn is running. */
export function drainQueue(batch: Batch): void {
  const { state } = batch;
  if (state.run?.draining && !state.run.stopping && state.turn === null) return stopForDrain(batch);
  for (;;) {
    const next = state.queue.find((item) => item.turnId === null || state.turn === null);
    if (!next || state.agent !== "ready" || isRestoring(state)) return;
    const { seq, turnId } = next;
    const refusal = state.run && laterMembersRefusal(state.run, batch.frameAt(seq).frame);
    if (refusal) {
      dropQueued(batch, next, refusal);
      continue;
    }
    const context = turnId === null ? state.context : { ...state.context, turnId };
    batch.fact("gateway", "queue.dequeued", { seq, turnId }, context);
    if (turnId !== null) batch.fact("gateway", "turn.started", { turnId, prompt: seq }, context);
  }
}

/** The refusal of a message that brings along what the workspace does not allow clients to configure. */
export function laterMembersRefusal(
  { opening, root }: Pick<NonNullable<SessionState["run"]>, "opening" | "root">,
  frame: Frame,
): RpcError | undefined {
  if (allowsEverything(opening)) return undefined;
  const refused = checkLaterMembers(paramsOf(frame), opening, root);
  if (!refused) return undefined;
  const { message, setting } = refused;
  return { code: ErrorCode.invalidParams, message, data: { setting } };
}

/** Ends the process because its host is draining. The queue waits for the next process. */
export function stopForDrain(batch: Batch): void {
  const { run } = batch.state;
  if (run) batch.fact("gateway", "queue.owner.drained", { run: run.id, host: run.host });
}

/** Takes prompts out of the queue, with the answer of a cancelled turn: all prompts, or those that `isMeant` names. */
export function cancelQueued(batch: Batch, isMeant: (seq: number) => boolean = () => true): void {
  for (const { seq, turnId } of [...batch.state.queue]) {
    if (turnId === null || !isMeant(seq)) continue;
    batch.fact("gateway", "queue.dequeued", { seq, turnId, dropped: "cancelled" });
    settle(batch, seq, { result: { stopReason: "cancelled" } });
    batch.fact("gateway", "turn.cancelled", { turnId, prompt: seq, stopReason: "cancelled" });
  }
}

export function dropQueued(batch: Batch, { seq, turnId }: Queued, error: RpcError): void {
  batch.fact("gateway", "queue.dequeued", { seq, turnId, dropped: error.message });
  settle(batch, seq, { error });
  if (turnId !== null)
    batch.fact("gateway", "turn.failed", { turnId, prompt: seq, reason: "dropped", error });
}
