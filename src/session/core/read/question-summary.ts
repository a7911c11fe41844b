import type { Frame } from "../../../protocol/frame.ts";
import { isRecord, type JsonObject, recordOf, textOrNull } from "../../../protocol/json-value.ts";
import type { QuestionSummary } from "../../../protocol/question.ts";
import type { SessionState } from "../state/state.ts";

/** Null when request `seq` is no question that waits for an answer. `frame` is the request, if it is not in the archive. */
export function questionSummary(
  state: SessionState,
  seq: number,
  frame: Frame | undefined,
): QuestionSummary | null {
  const question = state.awaitingClient[seq]?.question;
  if (!question || !state.identity) return null;
  const { message, requestedSchema, url } = questionParams(state, seq, frame);
  const { mode, toolCallId } = question;
  return {
    workspace: state.identity.workspace,
    sessionTitle: state.report.info.title,
    mode,
    message: textOrNull(message) ?? "",
    toolCallId,
    requestedSchema: mode === "form" && isRecord(requestedSchema) ? JSON.stringify(requestedSchema) : null,
    url: mode === "url" ? textOrNull(url) : null,
  };
}

/** The parameters of a question, or as much of them as the state has. */
export function questionParams(state: SessionState, seq: number, frame: Frame | undefined): JsonObject {
  if (frame) return recordOf(frame.value.params);
  const { mode, message, requestedSchema, url } = state.awaitingClient[seq]?.question ?? {};
  return { mode, message, requestedSchema: requestedSchema?.value, url: url?.value };
}
