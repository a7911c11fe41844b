import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import type { SessionState } from "./state.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The sessions of the agent's sub-agents, by the agent's own ids. An agent may speak of those that it has announced. */

export function isChild({ children = [] }: SessionState, agentId: string): boolean {
  return children.includes(agentId);
}

/** Whether a `session/update` announces a sub-agent. */
export function isAnnouncement(frame: Frame): boolean {
  return recordOf(paramsOf(frame).update).sessionUpdate === "subagent_update";
}

/** Remembers a sub-agent that the agent announces in its own session, or in that of a sub-agent. */
export function foldAnnouncement(state: SessionState, frame: Frame): void {
  const { sessionId } = recordOf(paramsOf(frame).update);
  if (typeof sessionId !== "string") return;
  if (sessionId.length > STATE_BUDGET.childIdChars || sessionId === state.context.acpSessionId) return;
  if (isChild(state, sessionId)) return;
  state.children = [...(state.children ?? []), sessionId].slice(-STATE_BUDGET.children);
}
