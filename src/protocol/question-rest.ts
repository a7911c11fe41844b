import { z } from "zod";
import {
  QUESTION_ACTIONS,
  type QuestionAction,
  type QuestionMode,
  type QuestionSummary,
} from "./question.ts";
import { PAGE_QUERY, type Paged } from "./rest.ts";

/** The part of the REST API that is about questions, see `rest.ts`. */

export const QUESTIONS_QUERY = PAGE_QUERY.extend({ state: z.literal("pending").default("pending") });

/** A question that waits for an answer. */
export type PendingQuestion = {
  id: string;
  sessionId: string;
  seq: number;
  workspace: string;
  mode: QuestionMode;
  /** The beginning of a long message. */
  message: string | null;
  toolCallId: string | null;
  /** Null in `url` mode, or when the form is too long for a list. */
  requestedSchema: Readonly<Record<string, unknown>> | null;
  /** Null in `form` mode, or when the address is too long for a list. */
  url: string | null;
  requestedAt: string;
};
/** One question with its whole form. */
export type QuestionRequest = Omit<QuestionSummary, "requestedSchema"> & {
  id: string;
  sessionId: string;
  requestedSchema: Readonly<Record<string, unknown>> | null;
};

export type QuestionList = Paged<{ questions: PendingQuestion[] }>;

/** Only an accepted form has content: a value for each field. */
export const QUESTION_ANSWER = z.strictObject({
  action: z.enum(QUESTION_ACTIONS),
  content: z.record(z.string(), z.unknown()).optional(),
});
export type AnsweredQuestion = { id: string; action: QuestionAction };

/** A link to the form of a question. */
export type QuestionLink = { id: string; question: string; expiresAt: string; url: string };
