import { isFact, isFrame, type LogEvent } from "../events/event.ts";
import { foldFact } from "./fold-fact.ts";
import { applyFrame } from "./fold-frame.ts";
import type { SessionState } from "./state.ts";

/** Folds one event into the state, in place. */
export function apply(state: SessionState, event: LogEvent): void {
  if (state.lastSeq === 0) state.createdAt = event.at;
  state.lastSeq = event.seq;
  // A session that is only moved to the archive is not used by that.
  if (event.kind !== "log.archived") state.lastAt = event.at;
  // Each item of a run becomes one event of the agent or the host, so their count is what the host has been acknowledged.
  if (state.run && (event.source === "agent" || event.source === "host")) state.run.received += 1;
  if (isFrame(event)) applyFrame(state, event);
  else if (isFact(event)) foldFact(state, event);
}
