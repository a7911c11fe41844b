import { type ResponseFrame, resultOf } from "../../../protocol/frame.ts";
import type { Violations } from "../state/violations.ts";
import type { Batch } from "./batch.ts";

/**
 * Violations: an agent breaks a rule of the stream, and its frame is passed on as it is. The state counts every case;
 * the first cases of a turn are in the log as facts of their own, right after the frame they are about.
 */

/** Adds an event of the agent with `add`, then a fact for each rule that the event breaks. */
export function recordWithViolations(batch: Batch, add: () => number): number {
  const { violations } = batch.state.report;
  const before = { ...violations };
  const seq = add();
  for (const violation of VIOLATIONS) {
    if (violations[violation] > before[violation]) logViolation(batch, seq, violation);
  }
  return seq;
}

function logViolation(batch: Batch, frame: number, violation: keyof Violations): void {
  const inTurn = batch.state.violations[violation] ?? 0;
  if (inTurn > LOGGED_PER_TURN) return;
  batch.fact("gateway", "error", {
    origin: "agent",
    code: null,
    ...RULES[violation],
    violation,
    frame,
    ...(inTurn === LOGGED_PER_TURN ? { last: true } : {}),
  });
}

/** Adds a fact for each rule that an answer breaks. There is one answer per request, so nothing counts these cases. */
export function logBadAnswer(batch: Batch, seq: number, frame: ResponseFrame, method: string): void {
  const log = (violation: string, detailCode: string, message: string) =>
    batch.fact("gateway", "error", {
      ...{ origin: "agent", code: null, detailCode, message, violation, frame: seq },
    });
  if (frame.spans.surplus)
    log("resultAndError", "result_and_error", "The agent answered with both a result and an error");
  if (method === "session/prompt" && "result" in frame.value && !hasStopReason(frame))
    log(
      "unknownStopReason",
      "unknown_stop_reason",
      "The agent ended a turn for a reason that ACP does not have",
    );
}

function hasStopReason(frame: ResponseFrame): boolean {
  return STOP_REASONS.has(resultOf(frame).stopReason);
}

const STOP_REASONS: ReadonlySet<unknown> = new Set([
  ...["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"],
]);

/** Of each kind: an agent that breaks a rule with every frame must not double its log. */
const LOGGED_PER_TURN = 20;

const RULES: Readonly<Record<keyof Violations, { detailCode: string; message: string }>> = {
  foreignSession: {
    detailCode: "foreign_session",
    message: "The agent spoke of a session that is not this one",
  },
  duplicateToolCall: {
    detailCode: "duplicate_tool_call",
    message: "The agent announced a tool call under an id that it had used before",
  },
  backwardStatus: {
    detailCode: "backward_tool_status",
    message: "The agent set a tool call back to an earlier status, or ended it twice",
  },
  changedContent: {
    detailCode: "changed_tool_content",
    message: "The agent changed the content of a finished tool call",
  },
  noMessage: {
    detailCode: "no_message",
    message: "The agent wrote something that is not one JSON-RPC message",
  },
};

const VIOLATIONS = Object.keys(RULES) as (keyof Violations)[];
