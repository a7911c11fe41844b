import { applyAllowList, members, scalars } from "../../../../protocol/allow-list.ts";
import type { Caller } from "../../../../protocol/caller.ts";
import { isFault, readFrame } from "../../../../protocol/frame.ts";
import { isFrame, type LogEvent } from "../../events/event.ts";
import { payloadOf } from "./facts.ts";
import { messageOf, ROUTE } from "./messages.ts";
import { SESSION } from "./projection.ts";

/**
 * What of a session is shown to those who may know the conversation, but not what tools were given nor what came out
 * of them. All of it is lists of what is shown: what is new in the protocol, in the log or in the projection is hidden
 * until somebody has entered it.
 */

/** The event as they have it: itself, if there is nothing to hide. */
export function redacted(event: LogEvent): LogEvent {
  if (!isFrame(event)) {
    const text = JSON.stringify(event.payload);
    const left = applyAllowList(text, payloadOf(event.kind));
    // Its readers look only at fields that are visible.
    return left === text ? event : ({ ...event, payload: JSON.parse(left) } as LogEvent);
  }
  const raw = applyAllowList(event.frame.raw, messageOf(event));
  if (raw === event.frame.raw) return event;
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error("A frame was no frame without what it had to hide");
  return { ...event, frame };
}

/** The same for the event's line, which may have been written elsewhere and have more than we know of. */
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

/** The projection, and what is told with it, as JSON text for that caller. */
export function sessionFor({ redacted: isRedacted }: Caller, session: object): string {
  const text = JSON.stringify(session);
  return isRedacted ? applyAllowList(text, SESSION) : text;
}
