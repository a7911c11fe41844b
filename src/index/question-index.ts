import type { Caller } from "../protocol/caller.ts";
import type { QuestionMode } from "../protocol/question.ts";
import { listWaiting, replaceWaiting, type WaitingRow, waitingTable } from "./waiting-requests.ts";

/** A question that waits for an answer, as a row of the D1 table `questions`. */
type OfQuestion = {
  mode: QuestionMode;
  message: string | null;
  toolCallId: string | null;
  /** JSON text; null for an address, or when the form was too long for the index. The session's log has it. */
  requestedSchema: string | null;
  url: string | null;
};

export type IndexedQuestion = WaitingRow & OfQuestion & { id: string };

const PENDING = waitingTable<OfQuestion>("questions", {
  mode: "mode",
  message: "message",
  toolCallId: "tool_call_id",
  requestedSchema: "requested_schema",
  url: "url",
});

/** A page of the questions that wait in the caller's sessions, oldest first. */
export async function listQuestions(
  index: D1Database,
  caller: Caller,
  limit: number,
  cursor?: string,
): Promise<{ questions: IndexedQuestion[]; nextCursor: string | null }> {
  const { rows: questions, nextCursor } = await listWaiting(index, PENDING, caller, limit, cursor);
  return { questions, nextCursor };
}

/** Replaces all questions of one session, see `replaceWaiting`. */
export function replaceQuestions(
  index: D1Database,
  entry: { sessionId: string; lastSeq: number; tenant: string; workspace: string; questions: string },
): D1PreparedStatement[] {
  const values = {
    mode: "value ->> 'mode'",
    message: "value ->> 'message'",
    tool_call_id: "value ->> 'toolCallId'",
    requested_schema: "value -> 'requestedSchema'",
    url: "value ->> 'url'",
  };
  return replaceWaiting(index, "questions", values, entry, entry.questions);
}
