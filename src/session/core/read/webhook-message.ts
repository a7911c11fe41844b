import { clip } from "../../../protocol/clipped-text.ts";
import { clientRequestId } from "../../../protocol/ids.ts";
import { isoTime } from "../../../protocol/iso-time.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import { permissionDetails } from "../../../protocol/permission-details.ts";
import { visibleLine, visibleText } from "../../../protocol/visible-text.ts";
import type {
  AnnouncedPermission,
  AnnouncedQuestion,
  TurnEndedData,
  WebhookMessage,
  WebhookMessageType,
} from "../../../protocol/webhook-messages.ts";
import { optionsIn } from "../decide/permissions.ts";
import { FACTS, type Facts } from "../events/catalogue.ts";
import { type FactEvent, isFact, type LogEvent } from "../events/event.ts";
import { jsonChars } from "../state/bounded-values.ts";
import { titleOf } from "../state/session-title.ts";
import type { SessionIdentity, SessionState } from "../state/state.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";
import { isAgentFailure } from "./for-client.ts";
import { announcedToolCall } from "./permission-summary.ts";
import { pendingPermissions } from "./projection.ts";

/** The webhook messages that come of the events just recorded, by sequence number. `state` is the state after them. */
export function webhookMessagesFor(
  state: SessionState,
  events: readonly LogEvent[],
  wanted: readonly WebhookMessageType[],
  maxOptions: number,
): { seq: number; message: WebhookMessage }[] {
  const { identity } = state;
  if (!identity) return [];
  return events.flatMap((event) => {
    if (!isFact(event) || !isWanted(FACTS[event.kind].webhook, wanted)) return [];
    const message = webhookMessageOf(state, identity, event, maxOptions);
    return message ? { seq: event.seq, message } : [];
  });
}

function isWanted(type: WebhookMessageType | undefined, wanted: readonly WebhookMessageType[]): boolean {
  return type !== undefined && wanted.includes(type);
}

function webhookMessageOf(
  state: SessionState,
  { workspace, agent }: SessionIdentity,
  event: FactEvent,
  maxOptions: number,
): WebhookMessage | undefined {
  const timestamp = isoTime(event.at);
  const about = { workspace, sessionId: state.sessionId, sessionTitle: titleOf(state) };
  switch (event.kind) {
    case "permission.requested": {
      const permission = pendingPermission(state, event.payload, maxOptions);
      if (!permission) return undefined;
      return {
        type: "permission.pending",
        timestamp,
        data: { ...about, permission, requestedAt: timestamp },
      };
    }
    case "question.requested": {
      const question = pendingQuestion(state, event.payload);
      if (!question) return undefined;
      return { type: "question.pending", timestamp, data: { ...about, question, requestedAt: timestamp } };
    }
    case "turn.completed":
    case "turn.cancelled":
    case "turn.failed":
      return { type: "turn.ended", timestamp, data: { ...about, ...turnEnd(event) } };
    case "error": {
      if (!isAgentFailure(event.payload)) return undefined;
      const { detailCode, message } = event.payload;
      const failure = {
        agent,
        detailCode: clippedText(detailCode, STATE_BUDGET.wordChars),
        message: clippedText(message, STATE_BUDGET.reasonChars) ?? "",
      };
      return { type: "agent.failed", timestamp, data: { ...about, ...failure } };
    }
    default:
      return undefined;
  }
}

/** Undefined when nobody has to answer: the policy has answered, or the turn ended in the same step. */
function pendingPermission(
  state: SessionState,
  payload: Facts["permission.requested"],
  maxOptions: number,
): AnnouncedPermission | undefined {
  const open = pendingPermissions(state).find(({ seq }) => seq === payload.request);
  if (!open) return undefined;
  const { seq, toolCallId, title, kind } = open;
  const options = optionsIn(payload)
    // A shortened id would choose no option.
    .filter(({ optionId }) => optionId.length <= STATE_BUDGET.idChars)
    .slice(0, maxOptions)
    .map((option) => ({
      optionId: option.optionId,
      name: shownLine(option.name, STATE_BUDGET.labelChars),
      kind: shownLine(option.kind, STATE_BUDGET.wordChars),
    }));
  const announced = announcedToolCall(state, toolCallId, () => undefined);
  return {
    id: clientRequestId(state.sessionId, seq),
    toolCallId,
    title: shownLine(title, STATE_BUDGET.labelChars),
    kind: shownLine(kind, STATE_BUDGET.wordChars),
    details: permissionDetails(payload.toolCall, announced, WEBHOOK_DETAILS_CHARS),
    options,
  };
}

/** Undefined when the question ended in the same step. */
function pendingQuestion(
  state: SessionState,
  payload: Facts["question.requested"],
): AnnouncedQuestion | undefined {
  const open = state.awaitingClient[payload.request]?.question;
  if (!open) return undefined;
  const { mode, toolCallId } = open;
  const { message, requestedSchema, url } = payload;
  const isShort = typeof url === "string" && url.length <= STATE_BUDGET.pathChars;
  const fits = jsonChars(requestedSchema, WEBHOOK_DETAILS_CHARS) !== undefined;
  const maxChars = STATE_BUDGET.detailChars;
  return {
    id: clientRequestId(state.sessionId, payload.request),
    mode,
    message: visibleText(typeof message === "string" ? message : "", { maxChars, newlines: "plain" }).text,
    toolCallId,
    requestedSchema: mode === "form" && fits ? requestedSchema : null,
    url: mode === "url" && isShort ? url : null,
  };
}

function turnEnd({
  kind,
  payload,
}: FactEvent<"turn.completed" | "turn.cancelled" | "turn.failed">): TurnEndedData {
  const stopReason = kind === "turn.failed" ? null : clippedText(payload.stopReason, STATE_BUDGET.wordChars);
  const error = kind === "turn.failed" ? payload.error : undefined;
  return {
    turnId: clip(payload.turnId, STATE_BUDGET.idChars),
    outcome: OUTCOMES[kind],
    ...(stopReason === null ? {} : { stopReason }),
    // The error's `data`, such as output of the process, stays in the log.
    ...(isRecord(error) && {
      error: {
        code: typeof error.code === "number" ? error.code : null,
        message: clippedText(error.message, STATE_BUDGET.reasonChars) ?? "",
      },
    }),
  };
}

const OUTCOMES = {
  "turn.completed": "completed",
  "turn.cancelled": "cancelled",
  "turn.failed": "failed",
} as const;

/** Many messages may wait for a webhook, so each has less room than a page. */
const WEBHOOK_DETAILS_CHARS = 16 * 1024;

function shownLine(text: string | null, maxChars: number): string | null {
  return text === null ? null : visibleLine(text, maxChars);
}

function clippedText(value: unknown, maxChars: number): string | null {
  return typeof value === "string" ? clip(value, maxChars) : null;
}
