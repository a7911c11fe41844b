import { ErrorCode, errorResponse, type RpcError, resultResponse } from "../../../protocol/errors.ts";
import { type ResponseFrame, resultOf, rewrite } from "../../../protocol/frame.ts";
import { textOrNull } from "../../../protocol/json-value.ts";
import type { Limits } from "../../../protocol/limits.ts";
import type { Route } from "../events/event.ts";
import type { Queued, RequestToAgent, SessionState } from "../state/state.ts";
import type { Batch } from "./batch.ts";

/** Turns, and the queue of prompts before them. */

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

/** A response goes to the client that asked, under the client's own id. Responses to the gateway go no further. */
export function answerRoute(re: number, { connection, id, also }: RequestToAgent): Route {
  if (connection === undefined || id === undefined) return { re, stop: "gateway" };
  return { re, to: connection, id, ...alsoTo(also) };
}

function alsoTo(also: RequestToAgent["also"]): Pick<Route, "also"> {
  return also ? { also: also.map(({ connection }) => connection) } : {};
}

/** Whether a method is for the agent's process and not for its session: without a login the session may not open. */
export function forProcess(method: string | undefined): boolean {
  return method === "authenticate" || method === "logout";
}

/** Sends a process that is up the frames that need no agent session. */
export function drainForProcess(batch: Batch): void {
  const { queue, awaitingAgent } = batch.state;
  for (const { seq, turnId } of queue.filter((item) => forProcess(awaitingAgent[item.seq]?.method)))
    batch.fact("gateway", "queue.dequeued", { seq, turnId });
}

/** Sends waiting frames in order. A prompt goes when no turn is running. */
export function drainQueue(batch: Batch): void {
  const { state } = batch;
  if (state.run?.draining && !state.run.stopping && state.turn === null) return stopForDrain(batch);
  for (;;) {
    const next = state.queue.find((item) => item.turnId === null || state.turn === null);
    if (!next || state.agent !== "ready") return;
    const { seq, turnId } = next;
    const context = turnId === null ? state.context : { ...state.context, turnId };
    batch.fact("gateway", "queue.dequeued", { seq, turnId }, context);
    if (turnId !== null) batch.fact("gateway", "turn.started", { turnId, prompt: seq }, context);
  }
}

/** Ends the process because its host is draining. The queue waits for the next process. */
export function stopForDrain(batch: Batch): void {
  const { run } = batch.state;
  if (run) batch.fact("gateway", "queue.owner.drained", { run: run.id, host: run.host });
}

/** The agent answered the prompt. */
export function endTurn(
  batch: Batch,
  prompt: number,
  pending: RequestToAgent,
  response: ResponseFrame,
): void {
  const { turn } = batch.state;
  // Clients that repeated the prompt, by its idempotency key, get the same answer.
  for (const { connection, id } of pending.also ?? []) {
    batch.frame("gateway", "in", rewrite(response, { id }), { to: connection, re: prompt });
  }
  if (turn?.prompt === prompt) {
    const { turnId } = turn;
    const { result, error } = response.value;
    const stopReason = textOrNull(resultOf(response).stopReason);
    if (!result)
      batch.fact("gateway", "turn.failed", {
        turnId,
        prompt,
        reason: "agent_error",
        error,
      });
    else
      batch.fact("gateway", stopReason === "cancelled" ? "turn.cancelled" : "turn.completed", {
        turnId,
        prompt,
        stopReason,
      });
  }
  drainQueue(batch);
}

/** Takes every prompt out of the queue, with the answer of a cancelled turn. */
export function cancelQueued(batch: Batch): void {
  for (const { seq, turnId } of [...batch.state.queue]) {
    if (turnId === null) continue;
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

/** Fails the running turn and every request the agent has, except requests of the method `kept`. */
export function failRunning(batch: Batch, reason: string, error: RpcError, kept?: string): void {
  const { turn, queue } = batch.state;
  const waiting = new Set(queue.map((item) => String(item.seq)));
  for (const key of Object.keys(batch.state.awaitingAgent)) {
    if (!waiting.has(key) && batch.state.awaitingAgent[key]?.method !== kept)
      settle(batch, Number(key), { error });
  }
  if (turn) batch.fact("gateway", "turn.failed", { turnId: turn.turnId, prompt: turn.prompt, reason, error });
}

/** Answers a request in place of the agent. */
export function settle(batch: Batch, seq: number, answer: { result: unknown } | { error: RpcError }): void {
  const pending = batch.state.awaitingAgent[seq];
  // No client waits for a request of the gateway, or for a queued notification.
  if (pending?.connection === undefined || pending.id === undefined) return;
  const all = [{ connection: pending.connection, id: pending.id }, ...(pending.also ?? [])];
  for (const { connection, id } of all) {
    const raw = "error" in answer ? errorResponse(id, answer.error) : resultResponse(id, answer.result);
    batch.frame("gateway", "in", raw, { to: connection, re: seq, ...alsoTo(pending.also) });
  }
}
