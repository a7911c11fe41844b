import { parseChildSessionId } from "../../../protocol/child-session-id.ts";
import { mayHaveCredentials } from "../../../protocol/concealment.ts";
import { oneLine, rewrite } from "../../../protocol/frame.ts";
import { type FrameEvent, isFact, isFrame, type LogEvent } from "../events/event.ts";

/** Sources of a line for the agent besides the event: held frames, and values that the log conceals. */
export type AgentSources = {
  frameAt(seq: number): FrameEvent | undefined;
  reveal(line: string, asked: string | undefined): string;
};

/** The line that an event puts on the agent's stdin, if any. */
export function forAgent(event: LogEvent, sources: AgentSources): string | undefined {
  const sent = sentToAgent(event, sources);
  if (!sent) return undefined;
  const line = toAgent(sent, event);
  const asked = askedMethod(sent, sources);
  return mayHaveCredentials(sent.frame.value, asked) ? sources.reveal(line, asked) : line;
}

/** The method of the agent's request that a client has answered with contents. */
function askedMethod({ frame, route, source }: FrameEvent, { frameAt }: AgentSources): string | undefined {
  if (source !== "client" || frame.kind !== "response" || route.re === undefined) return undefined;
  return mayHaveContents(frame.value.result) ? frameAt(route.re)?.frame.method : undefined;
}

function mayHaveContents(result: unknown): boolean {
  return typeof result === "object" && result !== null && ("content" in result || "_meta" in result);
}

function sentToAgent(event: LogEvent, { frameAt }: AgentSources): FrameEvent | undefined {
  if (isFrame(event)) return event.direction === "out" && event.route.stop === undefined ? event : undefined;
  if (!isFact(event) || event.kind !== "queue.dequeued" || event.payload.dropped !== undefined)
    return undefined;
  return frameAt(event.payload.seq);
}

function toAgent({ frame: given, route, source, seq }: FrameEvent, { context }: LogEvent): string {
  // Every position in the text stays. After a rewrite, the search for line breaks would cost a copy.
  const frame = { ...given, raw: oneLine(given.raw) };
  // Frames of the gateway and the host are in the agent's terms already.
  if (source !== "client") return frame.raw;
  const child = given.sessionId === undefined ? undefined : parseChildSessionId(given.sessionId)?.agentId;
  const named = child ?? context.acpSessionId;
  const session = named === null ? {} : { sessionId: JSON.stringify(named) };
  switch (frame.kind) {
    case "request":
      return rewrite(frame, { ...session, id: String(seq) });
    case "response":
      return rewrite(frame, route.id === undefined ? {} : { id: route.id });
    default:
      return rewrite(
        frame,
        route.requestId === undefined ? session : { ...session, requestId: route.requestId },
      );
  }
}
