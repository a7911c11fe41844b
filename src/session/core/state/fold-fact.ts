import { assertNever } from "../../../protocol/assert-never.ts";
import type { FactEvent } from "../events/event.ts";
import { PROCESS_FACTS } from "../events/facts/process-facts.ts";
import { REQUEST_FACTS } from "../events/facts/request-facts.ts";
import { SESSION_FACTS } from "../events/facts/session-facts.ts";
import { TURN_FACTS } from "../events/facts/turn-facts.ts";
import { foldProcessFact } from "./fold-process.ts";
import { foldRequestFact } from "./fold-request.ts";
import { foldSessionFact } from "./fold-session.ts";
import { foldTurnFact } from "./fold-turn.ts";
import type { SessionState } from "./state.ts";

/** Folds a fact into the state, in the file of its family. A family that is missing here does not compile. */
export function foldFact(state: SessionState, event: FactEvent): void {
  if (isOf(TURN_FACTS, event)) return foldTurnFact(state, event);
  if (isOf(REQUEST_FACTS, event)) return foldRequestFact(state, event);
  if (isOf(PROCESS_FACTS, event)) return foldProcessFact(state, event);
  if (isOf(SESSION_FACTS, event)) return foldSessionFact(state, event);
  assertNever(event);
}

function isOf<Family extends object>(
  family: Family,
  event: FactEvent,
): event is Extract<FactEvent, { kind: keyof Family }> {
  return Object.hasOwn(family, event.kind);
}
