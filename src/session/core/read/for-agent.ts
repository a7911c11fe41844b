import { oneLine, rewrite } from "../../../protocol/frame.ts";
import { hasMcpServers } from "../../../protocol/mcp-credentials.ts";
import { type FrameEvent, isFact, isFrame, type LogEvent } from "../events/event.ts";

/** Sources of a line for the agent besides the event: held frames, and values that the log conceals. */
export type AgentSources = {
  frameAt(seq: number): FrameEvent | undefined;
  reveal(line: string): string;
};

/** The line that an event puts on the agent's stdin, if any. */
export function forAgent(event: LogEvent, sources: AgentSources): string | undefined {
  const sent = sentToAgent(event, sources);
  if (!sent) return undefined;
  const line = toAgent(sent, event);
  return hasMcpServers(sent.frame.value) ? sources.reveal(line) : line;
}

function sentToAgent(event: LogEvent, { frameAt }: AgentSources): FrameEvent | undefined {
  if (isFrame(event)) return event.direction === "out" && event.route.stop === undefined ? event : undefined;
  if (!isFact(event) || event.kind !== "queue.dequeued" || event.payload.dropped !== undefined)
    return undefined;
  return frameAt(event.payload.seq);
}

function toAgent({ frame, route, source, seq }: FrameEvent, { context }: LogEvent): string {
  // Frames of the gateway and the host are in the agent's terms already.
  if (source !== "client") return oneLine(frame.raw);
  const session = context.acpSessionId === null ? {} : { sessionId: JSON.stringify(context.acpSessionId) };
  switch (frame.kind) {
    case "request":
      return oneLine(rewrite(frame, { ...session, id: String(seq) }));
    case "response":
      return oneLine(rewrite(frame, route.id === undefined ? {} : { id: route.id }));
    default:
      return oneLine(
        rewrite(frame, route.requestId === undefined ? session : { ...session, requestId: route.requestId }),
      );
  }
}
