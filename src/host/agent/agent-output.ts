import type { Line } from "../../node/line-splitter.ts";
import { NOISE_CHARS } from "../../protocol/host-wire.ts";
import { isRecord } from "../../protocol/json-value.ts";

/** A line of an agent's stdout: a frame, or noise. */
export type AgentOutput = { frame: string; message: Record<string, unknown> } | { noise: string };

/** A JSON object is a frame. Any other text is noise, and a blank line is nothing. */
export function readOutput(line: Line): AgentOutput | null {
  if (typeof line !== "string") return { noise: line.noise.slice(0, NOISE_CHARS) };
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  try {
    const message: unknown = JSON.parse(text);
    // On the host link the first character distinguishes a frame from an event of the host.
    if (isRecord(message)) return { frame: text.trimStart(), message };
  } catch {
    if (text.trim() === "") return null;
  }
  return { noise: text.slice(0, NOISE_CHARS) };
}
