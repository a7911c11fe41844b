import { isRecord } from "../../../protocol/json-value.ts";
import type { PermissionSummary } from "../../../protocol/permission.ts";
import { optionsIn } from "../decide/permissions.ts";
import { clip } from "../state/bounded-values.ts";
import type { SessionState } from "../state/state.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";
import { pendingPermissions } from "./projection.ts";

/** Null when request `seq`, whose parameters are given, does not wait for an answer. */
export function permissionSummary(
  state: SessionState,
  seq: number,
  params: unknown,
): PermissionSummary | null {
  const pending = pendingPermissions(state).find((one) => one.seq === seq);
  if (!pending || !state.identity) return null;
  return {
    workspace: state.identity.workspace,
    sessionTitle: state.report.info.title,
    title: titleIn(params) ?? pending.title,
    kind: pending.kind,
    options: optionsIn(params),
  };
}

/** The title is longer here than in lists, because nobody should allow a command after seeing only its beginning. */
function titleIn(params: unknown): string | undefined {
  const title = isRecord(params) && isRecord(params.toolCall) ? params.toolCall.title : undefined;
  if (typeof title !== "string") return undefined;
  return title.length > STATE_BUDGET.detailChars ? `${clip(title, STATE_BUDGET.detailChars)} …` : title;
}
