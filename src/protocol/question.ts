import type { ClientAbility } from "./client-abilities.ts";
import { isRecord, recordOf } from "./json-value.ts";

/** Questions of the agent to people: `elicitation/create` of ACP. */

export const QUESTION = "elicitation/create";

/** A form to fill in, or the address of a page to visit. */
export type QuestionMode = "form" | "url";

export const QUESTION_ACTIONS = ["accept", "decline", "cancel"] as const;
export type QuestionAction = (typeof QUESTION_ACTIONS)[number];

/** A person's answer. Only an accepted form has contents. */
export type QuestionAnswer = { action: QuestionAction; content?: Readonly<Record<string, unknown>> };

/** A field of an answer that does not fit its form, and why. */
export type FieldProblem = { field: string; message: string };

/** A pending question, as shown to a reader who sees nothing else of the session. */
export type QuestionSummary = {
  workspace: string;
  sessionTitle: string | null;
  mode: QuestionMode;
  message: string;
  toolCallId: string | null;
  /** JSON text of the schema of the form's answer, as the agent wrote it; null in `url` mode. */
  requestedSchema: string | null;
  /** The address of the page; null in `form` mode. */
  url: string | null;
};

/** The mode of a question; undefined for a mode that this gateway does not know. */
export function questionModeOf(params: unknown): QuestionMode | undefined {
  const { mode } = recordOf(params);
  return mode === "form" || mode === "url" ? mode : undefined;
}

/** The ability of the clients that can put a question of this mode to their user. */
export function abilityFor(mode: QuestionMode): ClientAbility {
  return `elicitation.${mode}`;
}

/** The reason why nobody can answer a question with these parameters, if there is one. */
export function badQuestion(params: unknown): string | undefined {
  const { message, requestedSchema, url } = recordOf(params);
  const mode = questionModeOf(params);
  if (mode === undefined) return 'params.mode must be "form" or "url"';
  if (typeof message !== "string") return "params.message must be a string";
  if (mode === "url") return typeof url === "string" ? undefined : "params.url must be a string";
  const { properties = {} } = recordOf(requestedSchema);
  return isRecord(requestedSchema) && isRecord(properties)
    ? undefined
    : "params.requestedSchema must be the schema of an object";
}
