import { clip } from "../../../protocol/clipped-text.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import { type Bounded, bound } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The part of a permission request that a person needs to answer it. */
export type Permission = {
  toolCallId: string | null;
  title: string | null;
  kind: string | null;
  /** Undefined when very many requests are open; the log has the options then. */
  options?: Bounded;
};

/** Reads the parameters of a session/request_permission that came as event `seq`. */
export function permissionOf(params: unknown, seq: number, alreadyOpen: number): Permission {
  const toolCall = isRecord(params) && isRecord(params.toolCall) ? params.toolCall : {};
  const permission: Permission = {
    toolCallId:
      typeof toolCall.toolCallId === "string" ? clip(toolCall.toolCallId, STATE_BUDGET.idChars) : null,
    title: label(toolCall.title),
    kind: label(toolCall.kind),
  };
  if (isRecord(params) && Array.isArray(params.options) && alreadyOpen < STATE_BUDGET.permissions)
    permission.options = bound(params.options, seq);
  return permission;
}

function label(value: unknown): string | null {
  return typeof value === "string" ? clip(value, STATE_BUDGET.labelChars) : null;
}
