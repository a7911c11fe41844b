import type { Line } from "../../node/line-splitter.ts";
import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { isRecord } from "../../protocol/json-value.ts";
import { readHead, unreadableAnswer } from "../../protocol/message-head.ts";

/**
 * A line of an agent's stdout: a frame, noise, or a message that is `dropped` for the reason given. `refusal` is for the
 * agent, which has sent a request in that line.
 */
export type AgentOutput =
  | { frame: string; message: Record<string, unknown> }
  | { noise: string; refusal?: string | undefined }
  | { dropped: string };

/**
 * An answer that no frame can carry is an error for the asker, and such a request is an error for the agent. Nobody waits
 * for an update, so the session has to say that it is missing.
 */
function unreadable({ noise, beginning, end }: Unreadable, reason: string): AgentOutput {
  const { kind, idText } = readHead(beginning ?? noise, end) ?? {};
  if (idText === undefined) return beginning?.trimStart().startsWith("{") ? { dropped: noise } : { noise };
  if (kind === "request") {
    const message = `The request cannot be read: ${reason}`;
    return { noise, refusal: errorResponse(idText, { code: ErrorCode.invalidRequest, message }) };
  }
  const frame = unreadableAnswer(idText, reason);
  return { frame, message: JSON.parse(frame) as Record<string, unknown> };
}

type Unreadable = Exclude<Line, string>;

/** A JSON object is a frame. Any other text is noise, and a blank line is nothing. */
export function readOutput(line: Line): AgentOutput | null {
  if (typeof line !== "string")
    return unreadable(
      line,
      line.beginning === undefined ? "the line is not UTF-8" : `too long ${line.noise}`,
    );
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  try {
    const message: unknown = JSON.parse(text);
    // On the host link the first character distinguishes a frame from an event of the host.
    if (isRecord(message)) return { frame: text.trimStart(), message };
  } catch {
    if (text.trim() === "") return null;
  }
  // A text that only resembles a message, like a clipped one in a trace, has no end.
  return text.trimEnd().endsWith("}") ? unreadable({ noise: text }, "the line is not JSON") : { noise: text };
}
