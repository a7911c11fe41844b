import type { RpcError } from "../../../protocol/errors.ts";
import { type ResponseFrame, resultOf, rewrite } from "../../../protocol/frame.ts";
import { textOrNull } from "../../../protocol/json-value.ts";
import type { RequestToAgent } from "../state/state.ts";
import { settle } from "./answers.ts";
import type { Batch } from "./batch.ts";
import { drainQueue } from "./queue.ts";

/** The ends of turns. */

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
