import { applyAllowList, blank, members, scalars } from "../../../../protocol/allow-list.ts";
import type { Caller } from "../../../../protocol/caller.ts";
import { mustReadFrame } from "../../../../protocol/frame.ts";
import { isFrame, type LogEvent } from "../../events/event.ts";
import { type PersonName, SOMEBODY } from "../../state/people.ts";
import { withoutAgentId } from "./agent-id.ts";
import { payloadOf } from "./facts.ts";
import { messageOf, ROUTE } from "./messages.ts";
import { SESSION } from "./projection.ts";

/**
 * Redacted reads: the reader sees the conversation, but neither the input nor the output of tools. All rules are
 * allow-lists, so a field that is new in the protocol, in the log or in the projection is hidden until it is listed.
 */

/** The event without its hidden parts; the event itself if nothing is hidden. */
export function redacted(event: LogEvent, personName?: PersonName): LogEvent {
  if (!isFrame(event)) {
    const text = JSON.stringify(event.payload);
    const left = applyAllowList(text, payloadOf(event, personName));
    // Code that reads a redacted event uses only visible fields.
    return left === text ? event : ({ ...event, payload: JSON.parse(left) } as LogEvent);
  }
  const raw = applyAllowList(event.frame.raw, messageOf(event));
  if (raw === event.frame.raw) return event;
  return { ...event, frame: mustReadFrame(raw) };
}

/** The event's line without its hidden parts. A line from elsewhere may have more members than the event. */
export function redactedLine(line: string, event: LogEvent, personName?: PersonName): string {
  const payload = isFrame(event)
    ? members({ ...ROUTE, direction: "scalar", message: messageOf(event) })
    : payloadOf(event, personName);
  const shown = applyAllowList(line, members({ ...ENVELOPE, payload }, ""));
  return isFrame(event) ? withoutAgentId(shown, event) : shown;
}

const ENVELOPE = {
  ...scalars("schema", "seq", "eventId", "at", "acpxRecordId", "turnId", "requestId", "source", "kind"),
  // The ids that the agent and its harness have for the session are of use on the host alone.
  acpSessionId: blank("null"),
  agentSessionId: blank("null"),
};

/** The projection of a session, with the additions of a view, as JSON text for this caller. */
export function sessionFor<Session extends { readonly clients?: readonly { readonly subject: string }[] }>(
  { redacted: isRedacted }: Caller,
  session: Session,
  personName: PersonName = () => SOMEBODY,
): string {
  if (!isRedacted) return JSON.stringify(session);
  const clients = session.clients?.map((client) => ({ ...client, subject: personName(client.subject) }));
  return applyAllowList(JSON.stringify({ ...session, ...(clients && { clients }) }), SESSION);
}
