import { type FrameEvent, isFact, isFrame, type LogEvent } from "../events/event.ts";

/**
 * Prompts that waited. Clients read such a prompt where its turn begins, so that it does not cut the answer of the turn
 * before it in two. A prompt that was dropped from the queue is not part of the conversation.
 */

/** The sequence number of the frame that leaves the queue for the agent with this event. */
export function leavingQueue(event: LogEvent): number | undefined {
  if (!isFact(event) || event.kind !== "queue.dequeued") return undefined;
  return event.payload.dropped === undefined ? event.payload.seq : undefined;
}

/**
 * The event as clients read it that attached at `attachment`: the prompt that waited, in place of the fact that its wait
 * is over. `held` is the frame that left the queue.
 */
export function asBegun(event: LogEvent, held: LogEvent | undefined, attachment: number): LogEvent {
  if (!held || !isWaitingPrompt(held)) return event;
  const { connection } = held.route;
  // The replay of a client that attached while its own prompt waited does not have the prompt.
  const isOwn = connection !== undefined && held.seq > attachment;
  const { seq, at, context } = event;
  return { ...held, seq, at, context, route: isOwn ? { connection } : {} };
}

/** Whether the event is a prompt that waits in the queue. */
export function isWaitingPrompt(event: LogEvent): event is FrameEvent {
  return isFrame(event) && event.frame.method === "session/prompt" && event.route.stop === "held";
}
