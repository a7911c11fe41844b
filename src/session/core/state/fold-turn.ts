import { assertNever } from "../../../protocol/assert-never.ts";
import type { Facts } from "../events/catalogue.ts";
import type { FactEvent } from "../events/event.ts";
import type { TURN_FACTS } from "../events/facts/turn-facts.ts";
import type { SessionState } from "./state.ts";
import { finishTurn, startTurn, type TurnEnd } from "./turn-history.ts";

/**
 * Folds what happened to prompts in the queue and to the turns they became. Each case picks the fields it folds: a
 * payload from elsewhere may have more of them, which nobody has checked.
 */
export function foldTurnFact(state: SessionState, event: FactEvent<keyof typeof TURN_FACTS>): void {
  switch (event.kind) {
    case "queue.enqueued": {
      const { seq, turnId } = event.payload;
      state.queue.push({ seq, turnId });
      return;
    }
    case "queue.dequeued": {
      const { seq } = event.payload;
      state.queue = state.queue.filter((item) => item.seq !== seq);
      return;
    }
    case "turn.started":
      beginTurn(state, event.payload, event);
      state.context = event.context;
      return;
    case "turn.completed": {
      const { turnId, prompt, stopReason, textPreview: replyPreview } = event.payload;
      state.crashes = 0;
      return endTurn(state, "completed", { turnId, prompt, stopReason, replyPreview }, event.at);
    }
    case "turn.cancelled": {
      const { turnId, prompt, stopReason } = event.payload;
      return endTurn(state, "cancelled", { turnId, prompt, stopReason }, event.at);
    }
    case "turn.failed": {
      const { turnId, prompt, reason } = event.payload;
      return endTurn(state, "failed", { turnId, prompt, reason }, event.at);
    }
    default:
      assertNever(event);
  }
}

function beginTurn(
  state: SessionState,
  { turnId, prompt, textPreview }: Facts["turn.started"],
  { seq, at }: { seq: number; at: number },
): void {
  // A turn of which the log has no prompt is known by the place where it began.
  const turn = { turnId, prompt: prompt ?? seq };
  state.violations = {};
  // The first chunk of an answer repeats nothing.
  if (state.run?.lastChunk) state.run.lastChunk = null;
  state.turn = { ...turn, startedAt: at, cancelled: false };
  startTurn(state.turns, { ...turn, promptPreview: textPreview }, at);
}

/** A queued prompt may end without having become the turn. */
function endTurn(
  state: SessionState,
  status: "completed" | "cancelled" | "failed",
  end: TurnEnd,
  at: number,
): void {
  finishTurn(state.turns, status, end, at);
  if (state.turn?.turnId !== end.turnId) return;
  state.turn = null;
  state.violations = {};
  state.context = { ...state.context, turnId: null };
}
