import { applyAllowList, members, scalars } from "../../../../protocol/allow-list.ts";
import type { Caller } from "../../../../protocol/caller.ts";
import { isFault, readFrame } from "../../../../protocol/frame.ts";
import { isFrame, type LogEvent } from "../../events/event.ts";
import { payloadOf } from "./facts.ts";
import { messageOf, ROUTE } from "./messages.ts";
import { SESSION } from "./projection.ts";

/**
 * Redacted reads: the reader sees the conversation, but neither the input nor the output of tools. All rules are
 * allow-lists, so a field that is new in the protocol, in the log or in the projection is hidden until it is listed.
 */

/** The event without its hidden parts; the event itself if nothing is hidden. */
export function redacted(event: LogEvent): LogEvent {
  if (!isFrame(event)) {
    const text = JSON.stringify(event.payload);
    const left = applyAllowList(text, payloadOf(event.kind));
    // Code that reads a redacted event uses only visible fields.
    return left === text ? event : ({ ...event, payload: JSON.parse(left) } as LogEvent);
  }
  const raw = applyAllowList(event.frame.raw, messageOf(event));
  if (raw === event.frame.raw) return event;
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error("Redaction made a frame invalid");
  return { ...event, frame };
}

/** The event's line without its hidden parts. A line from elsewhere may have more members than the event. */
export function redactedLine(line: string, event: LogEvent): string {
  const payload = isFrame(event)
    ? members({ ...ROUTE, direction: "scalar", message: messageOf(event) })
    : payloadOf(event.kind);
  return applyAllowList(line, members({ ...ENVELOPE, payload }, ""));
}

const ENVELOPE = scalars(
  ...["schema", "seq", "eventId", "at", "acpxRecordId", "acpSessionId", "agentSessionId"],
  ...["turnId", "requestId", "source", "kind"],
);

/** The projection of a session, with the additions of a view, as JSON text for this caller. */
export function sessionFor({ redacted: isRedacted }: Caller, session: object): string {
  const text = JSON.stringify(session);
  return isRedacted ? applyAllowList(text, SESSION) : text;
}
