import type { Violations } from "../state/agent-report.ts";
import type { Batch } from "./batch.ts";

/**
 * What an agent must not do, does anyway, and gets passed on as it is. Each case is counted in the state; the
 * first ones of a turn are in the log as events of their own, right after the frame they are about.
 */

/** Adds a frame of the agent with `add`, and then what is wrong with it. */
export function recordWithViolations(batch: Batch, add: () => number): number {
  const { acp } = batch.state;
  const before = { ...acp.violations };
  const seq = add();
  for (const kind of KINDS) {
    if (acp.violations[kind] > before[kind]) report(batch, seq, kind);
  }
  return seq;
}

function report(batch: Batch, frame: number, kind: keyof Violations): void {
  const { detailCode, message } = RULES[kind];
  const inTurn = batch.state.violations[kind] ?? 0;
  if (inTurn > PER_TURN) return;
  const last = inTurn === PER_TURN ? ({ last: true } as const) : {};
  batch.fact("gateway", "error", {
    origin: "agent",
    code: null,
    detailCode,
    message,
    violation: kind,
    frame,
    ...last,
  });
}

/** Of each kind: an agent that breaks a rule with every frame must not double its log. */
const PER_TURN = 20;

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
    message: "The agent changed what a tool call had brought after it was over",
  },
  noMessage: {
    detailCode: "no_message",
    message: "The agent wrote something that is not one JSON-RPC message",
  },
};

const KINDS = Object.keys(RULES) as (keyof Violations)[];
