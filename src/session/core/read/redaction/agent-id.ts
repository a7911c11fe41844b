import { replaceAt, spanAt } from "../../../../protocol/json-edit.ts";
import type { FrameEvent } from "../../events/event.ts";
import { isOwn } from "../for-client.ts";

/**
 * The line of a frame with the gateway's id of the session in place of the agent's own, which is of use on the host
 * alone. The sessions of sub-agents keep their ids, because the ids say who speaks.
 */
export function withoutAgentId(line: string, event: FrameEvent): string {
  const { frame, context } = event;
  const own = new Set([context.acpSessionId ?? undefined, isOwn(event) ? frame.sessionId : undefined]);
  own.delete(undefined);
  const record = own.size === 0 ? undefined : spanAt(line, ["acpxRecordId"]);
  if (!record) return line;
  const sessionId = line.slice(record.start, record.end);
  return PLACES.reduce((text, path) => {
    const span = spanAt(text, path);
    const value: unknown = span && JSON.parse(text.slice(span.start, span.end));
    return typeof value === "string" && own.has(value) ? replaceAt(text, path, sessionId) : text;
  }, line);
}

/** The members of a frame, in the line of its event, that name sessions. */
const PLACES = [
  ["params", "sessionId"],
  ["result", "sessionId"],
  ["params", "update", "sessionId"],
  ["params", "update", "senderSessionId"],
  ["params", "update", "recipientSessionId"],
].map((path) => ["payload", "message", ...path]);
