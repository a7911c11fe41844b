import { clip } from "../../../protocol/clipped-text.ts";
import { type Frame, paramsOf } from "../../../protocol/frame.ts";
import { isRecord, recordOf } from "../../../protocol/json-value.ts";
import type { PermissionSummary } from "../../../protocol/permission.ts";
import { permissionDetails } from "../../../protocol/permission-details.ts";
import { optionsIn } from "../decide/permissions.ts";
import { titleOf } from "../state/session-title.ts";
import type { SessionState } from "../state/state.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";
import { findToolCall } from "../state/tool-calls.ts";
import { pendingPermissions } from "./projection.ts";

/**
 * Null when request `seq`, whose parameters are given, does not wait for an answer. `frameAt` finds what the state was
 * too small for.
 */
export function permissionSummary(
  state: SessionState,
  seq: number,
  params: unknown,
  frameAt: (seq: number) => Frame | undefined,
): PermissionSummary | null {
  const pending = pendingPermissions(state).find((one) => one.seq === seq);
  if (!pending || !state.identity) return null;
  return {
    workspace: state.identity.workspace,
    sessionTitle: titleOf(state),
    title: titleIn(params) ?? pending.title,
    kind: pending.kind,
    options: optionsIn(params),
    details: permissionDetails(toolCallIn(params), announcedToolCall(state, pending.toolCallId, frameAt)),
  };
}

function toolCallIn(params: unknown): unknown {
  return isRecord(params) ? params.toolCall : undefined;
}

/** The tool call as the agent has described it in its updates. */
export function announcedToolCall(
  { report }: Pick<SessionState, "report">,
  toolCallId: string | null,
  frameAt: (seq: number) => Frame | undefined,
): Record<string, unknown> | undefined {
  const known = findToolCall(report, toolCallId);
  if (!known) return undefined;
  const { kind, details } = known;
  const found = (["content", "locations", "rawInput"] as const).map((name) => {
    const kept = details[name];
    if (!kept || "value" in kept) return [name, kept?.value];
    const frame = frameAt(kept.seq);
    const update = frame && recordOf(paramsOf(frame).update ?? paramsOf(frame).toolCall);
    return [name, update?.[name] ?? `(in event ${kept.seq} of the session's log)`];
  });
  // A title that fills its place in the state is only the beginning of the agent's title.
  const title = (known.title?.length ?? 0) < STATE_BUDGET.labelChars - 1 ? known.title : undefined;
  return { title, kind, ...Object.fromEntries(found) };
}

/** The title is longer here than in lists, because nobody should allow a command after seeing only its beginning. */
function titleIn(params: unknown): string | undefined {
  const title = isRecord(params) && isRecord(params.toolCall) ? params.toolCall.title : undefined;
  if (typeof title !== "string") return undefined;
  return title.length > STATE_BUDGET.detailChars ? `${clip(title, STATE_BUDGET.detailChars)} …` : title;
}
