import { notification } from "../../../protocol/errors.ts";
import { paramsOf, type ResponseFrame, resultOf } from "../../../protocol/frame.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import type { Batch } from "./batch.ts";

/**
 * `_session/steering`: a message to the agent in the middle of a turn, which common agents take. The message is part of
 * the conversation, so the log shows it to everybody, and to its sender in a replay.
 */
const STEERING = "_session/steering";

export function isSteering(method: string): boolean {
  return method === STEERING;
}

/** The agent answered a steering request. An agent without a running turn wants a prompt instead, which shows itself. */
export function steeringAnswered(batch: Batch, request: number, answer: ResponseFrame, from?: string): void {
  if (!("result" in answer.value) || resultOf(answer).outcome === "promptRequired") return;
  showSteering(batch, request, from);
}

/** Shows the message of the frame `seq` to every client but its sender. */
export function showSteering(batch: Batch, seq: number, from?: string): void {
  const logged = batch.findFrame(seq);
  const { prompt } = logged ? paramsOf(logged.frame) : {};
  if (!Array.isArray(prompt)) return;
  const { sessionId } = batch.state;
  for (const content of prompt.filter(isRecord).slice(0, BLOCKS)) {
    const update = { sessionUpdate: "user_message_chunk", content };
    const raw = notification("session/update", { sessionId, update });
    batch.frame("gateway", "in", raw, from === undefined ? {} : { except: from });
  }
}

/** More blocks are no message of a person: each becomes an event. */
const BLOCKS = 50;
