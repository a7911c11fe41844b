import { z } from "zod";
import type { Caller } from "../../../protocol/caller.ts";
import type { SessionView } from "../../../protocol/rest.ts";
import { readable } from "../../../protocol/versions.ts";
import { MessageHistory } from "../../../session/transfer/worker/message-history.ts";
import type { AskSession } from "../../targets.ts";

/** `history` is the event after which the page of messages begins; without it the page has the latest turns. */
export const MESSAGE_QUERY = z.object({ history: z.coerce.number().int().min(0).optional() });

/** `messageHistoryNext` is the next `history`; null at the end of the log. */
type MessagePage = { messageHistory: MessageHistory["messages"]; messageHistoryNext: number | null };

/** Turns of a page that nobody asked for. */
const LATEST_TURNS = 10;

/** Events of a page. A page of the log is bounded in characters as well. */
const PAGE_EVENTS = 2000;

/** The event before the latest turns. A view costs no read of the archive. */
function latestTurns(recent: SessionView["turns"]["recent"], archivedUpTo: number): number {
  const first = recent.at(-LATEST_TURNS) ?? recent[0];
  return Math.max(archivedUpTo, (first?.prompt ?? 1) - 1);
}

/**
 * A page of the session's messages, for clients of the container data model. The events are those that the caller may
 * read, so the messages are redacted as the events are.
 */
export async function messagePage(
  ask: AskSession,
  caller: Caller,
  view: string,
  history: number | undefined,
): Promise<MessagePage> {
  const { acpxRecordId, log, turns } = JSON.parse(view) as SessionView;
  const after = history ?? latestTurns(turns.recent, log.archivedUpTo);
  const messages = new MessageHistory(acpxRecordId);
  const read = await ask((session) => session.events(caller, after, PAGE_EVENTS));
  // A part of the history may be gone, or the session may be gone by now: its view stands without messages.
  if (!read.ok) return { messageHistory: [], messageHistoryNext: null };
  const { text, last } = readable(read.value, "A page of the log");
  for (const line of text.split("\n"))
    if (line !== "") messages.push(JSON.parse(line) as Record<string, unknown>);
  return {
    messageHistory: messages.messages,
    messageHistoryNext: last < log.lastSeq ? last : null,
  };
}
