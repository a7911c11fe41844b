import { type FrameEvent, isFact, isFrame, type LogEvent } from "../events/event.ts";

/**
 * Frames that waited. Clients read such a frame where its wait is over: a prompt where its turn begins, so that the
 * prompt does not cut the answer of the turn before it in two, and an update where clients have learned of the agent's
 * session. A frame that was dropped is not part of the conversation.
 */

/** The sequence number of the frame that clients read in place of this event. */
export function releasedBy(event: LogEvent): number | undefined {
  if (!isFact(event)) return undefined;
  if (event.kind === "session.update_released") return event.payload.frame;
  if (event.kind !== "queue.dequeued" || event.payload.dropped !== undefined) return undefined;
  return event.payload.seq;
}

/**
 * The event as clients read it that attached at `attachment`: the frame that waited, in place of the fact that its wait
 * is over.
 */
export function asReleased(event: LogEvent, held: LogEvent | undefined, attachment: number): LogEvent {
  if (!held || !isHeld(held)) return event;
  const { seq, at, context } = event;
  return { ...held, seq, at, context, route: releasedRoute(held, attachment) };
}

/** Whether the event is a prompt or an update that waits. */
function isHeld(event: LogEvent): event is FrameEvent {
  if (!isFrame(event) || event.route.stop !== "held") return false;
  return event.direction === "in" || event.frame.method === "session/prompt";
}

/** The replay of a client that attached while its own prompt waited does not have the prompt, so the client gets it. */
function releasedRoute({ route: { connection }, seq }: FrameEvent, attachment: number): FrameEvent["route"] {
  return connection !== undefined && seq > attachment ? { connection } : {};
}
