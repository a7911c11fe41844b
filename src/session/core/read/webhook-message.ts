import { clientRequestId } from "../../../protocol/ids.ts";
import { KEEP, LIMITS } from "../../../protocol/limits.ts";
import type {
  NoticeType,
  PendingPermission,
  SessionNotice,
  TurnEnd,
} from "../../../protocol/webhook-messages.ts";
import { optionsIn } from "../decide/agent-requests.ts";
import { isFrame, type LogEvent, type NoteEvent, type Payload } from "../events/event.ts";
import { clip, isRecord } from "../state/bounded-values.ts";
import type { Identity, SessionState } from "../state/state.ts";
import { pendingPermissions } from "./projection.ts";
import { isAgentFailure } from "./render.ts";

/** What of the events just recorded is worth a notice, by their places in the log; `state` is that after them. */
export function noticesOf(
  state: SessionState,
  events: readonly LogEvent[],
  wanted: readonly NoticeType[],
): { seq: number; notice: SessionNotice }[] {
  const { identity } = state;
  if (!identity) return [];
  return events.flatMap((event) => {
    const notice = isFrame(event) ? undefined : noticeOf(state, identity, event);
    return notice && wanted.includes(notice.type) ? { seq: event.seq, notice } : [];
  });
}

function noticeOf(
  state: SessionState,
  { workspace, agent }: Identity,
  { kind, payload, at }: NoteEvent,
): SessionNotice | undefined {
  const timestamp = new Date(at).toISOString();
  const about = { workspace, sessionId: state.sessionId, sessionTitle: state.acp.info.title };
  switch (kind) {
    case "permission.requested": {
      const permission = pendingPermission(state, payload);
      if (!permission) return undefined;
      return {
        type: "permission.pending",
        timestamp,
        data: { ...about, permission, requestedAt: timestamp },
      };
    }
    case "turn.completed":
    case "turn.cancelled":
    case "turn.failed":
      return { type: "turn.ended", timestamp, data: { ...about, ...turnEnd(kind, payload) } };
    case "error": {
      if (!isAgentFailure(payload)) return undefined;
      const { detailCode, message } = payload;
      const failure = {
        agent,
        detailCode: textOrNull(detailCode, KEEP.wordChars),
        message: textOrNull(message, KEEP.reasonChars) ?? "",
      };
      return { type: "agent.failed", timestamp, data: { ...about, ...failure } };
    }
    default:
      return undefined;
  }
}

/** Undefined when nobody has to answer: the workspace's policy has, or the turn was over in the same step. */
function pendingPermission(state: SessionState, payload: Payload): PendingPermission | undefined {
  const open = pendingPermissions(state).find(({ seq }) => seq === payload.request);
  if (!open) return undefined;
  const { seq, toolCallId, title, kind } = open;
  const options = optionsIn(payload)
    // An id that is cut off chooses nothing.
    .filter(({ optionId }) => optionId.length <= KEEP.idChars)
    .slice(0, LIMITS.answerLinks)
    .map((option) => ({
      optionId: option.optionId,
      name: textOrNull(option.name, KEEP.labelChars),
      kind: textOrNull(option.kind, KEEP.wordChars),
    }));
  return { id: clientRequestId(state.sessionId, seq), toolCallId, title, kind, options };
}

function turnEnd(kind: string, payload: Payload): TurnEnd {
  const stopReason = textOrNull(payload.stopReason, KEEP.wordChars);
  const { error } = payload;
  return {
    turnId: textOrNull(payload.turnId, KEEP.idChars),
    outcome: kind.slice("turn.".length) as TurnEnd["outcome"],
    ...(stopReason === null ? {} : { stopReason }),
    // What comes with an error in `data`, such as what the process printed, is in the log alone.
    ...(isRecord(error) && {
      error: {
        code: typeof error.code === "number" ? error.code : null,
        message: textOrNull(error.message, KEEP.reasonChars) ?? "",
      },
    }),
  };
}

function textOrNull(value: unknown, maxChars: number): string | null {
  return typeof value === "string" ? clip(value, maxChars) : null;
}
