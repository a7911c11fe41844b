import { KEEP } from "../../../protocol/limits.ts";
import { clip, isRecord, type Kept, keep } from "./bounded-values.ts";

/** What a person needs to know to answer a permission request. */
export type Permission = {
  toolCallId: string | null;
  title: string | null;
  kind: string | null;
  /** Undefined when very many requests are open; then they are in the log alone. */
  options?: Kept;
};

/** Reads the parameters of a session/request_permission that came as event `seq`. */
export function permissionOf(params: unknown, seq: number, alreadyOpen: number): Permission {
  const toolCall = isRecord(params) && isRecord(params.toolCall) ? params.toolCall : {};
  const permission: Permission = {
    toolCallId: typeof toolCall.toolCallId === "string" ? clip(toolCall.toolCallId, KEEP.idChars) : null,
    title: label(toolCall.title),
    kind: label(toolCall.kind),
  };
  if (isRecord(params) && Array.isArray(params.options) && alreadyOpen < KEEP.permissions)
    permission.options = keep(params.options, seq);
  return permission;
}

function label(value: unknown): string | null {
  return typeof value === "string" ? clip(value, KEEP.labelChars) : null;
}
