import { clip } from "../../../protocol/clipped-text.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import { type QuestionMode, questionModeOf } from "../../../protocol/question.ts";
import { type Bounded, bound } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The part of a question that a person needs to answer it. */
export type Question = {
  mode: QuestionMode;
  message: string | null;
  toolCallId: string | null;
  /** The form or the address. Undefined when very many requests are open; the log has it then. */
  requestedSchema?: Bounded;
  url?: Bounded;
};

/** Reads the parameters of an elicitation/create that came as event `seq`. */
export function questionOf(params: unknown, seq: number, alreadyOpen: number): Question {
  const { message, toolCallId, requestedSchema, url } = recordOf(params);
  const mode = questionModeOf(params) ?? "form";
  const question: Question = {
    mode,
    message: clipped(message, STATE_BUDGET.labelChars),
    toolCallId: clipped(toolCallId, STATE_BUDGET.idChars),
  };
  if (alreadyOpen >= STATE_BUDGET.permissions) return question;
  if (mode === "url") question.url = bound(url, seq);
  else question.requestedSchema = bound(requestedSchema, seq);
  return question;
}

function clipped(value: unknown, maxChars: number): string | null {
  return typeof value === "string" ? clip(value, maxChars) : null;
}
