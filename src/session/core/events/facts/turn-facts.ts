import { z } from "zod";
import { ERROR } from "../visible-parts.ts";
import { fact, NUMBER_OR_NULL, SEQ, SYNTHETIC, shown, TEXT, TEXT_OR_NULL } from "./definition.ts";

/** `prompt` is null only in a log that was made from a record of turns. */
const TURN = { turnId: TEXT, prompt: NUMBER_OR_NULL };

/** In a log that was made from a record of turns, the beginning of the message that the log does not have. */
const PREVIEW = { synthetic: SYNTHETIC, textPreview: TEXT.optional() };

/** Prompts in the queue, and the turns they become. */
export const TURN_FACTS = {
  "turn.started": fact({
    meaning:
      "The prompt went to the agent. `textPreview` is the beginning of the prompt where the log has no frame of it.",
    source: "gateway",
    listed: "soon",
    prompt: "prompt",
    turn: "running",
    payload: { ...TURN, ...PREVIEW },
    visible: shown("turnId", "prompt", "synthetic", "textPreview"),
  }),
  "turn.completed": fact({
    meaning:
      "The agent answered the prompt. `textPreview` is the beginning of the reply where the log has no frames of it.",
    source: "gateway",
    listed: "soon",
    prompt: "prompt",
    turn: "completed",
    webhook: "turn.ended",
    payload: { ...TURN, stopReason: TEXT_OR_NULL, ...PREVIEW },
    visible: shown("turnId", "prompt", "stopReason", "synthetic", "textPreview"),
  }),
  "turn.cancelled": fact({
    meaning: "The turn was cancelled, in the agent or in the queue.",
    source: "gateway",
    listed: "soon",
    prompt: "prompt",
    turn: "cancelled",
    webhook: "turn.ended",
    payload: { ...TURN, stopReason: TEXT_OR_NULL },
    visible: shown("turnId", "prompt", "stopReason"),
  }),
  "turn.failed": fact({
    meaning:
      "The turn ended without an answer, or with an error; `error` is the JSON-RPC error the client got.",
    source: "gateway",
    listed: "soon",
    prompt: "prompt",
    turn: "failed",
    webhook: "turn.ended",
    payload: { ...TURN, reason: TEXT_OR_NULL, error: z.unknown().optional() },
    visible: { ...shown("turnId", "prompt", "reason"), error: ERROR },
  }),
  "queue.enqueued": fact({
    meaning:
      "The client's frame `seq` waits, for the agent or for the turns before it. `turnId` is null unless it is a prompt.",
    source: "gateway",
    listed: "never",
    prompt: "seq",
    payload: { seq: SEQ, turnId: TEXT_OR_NULL, position: NUMBER_OR_NULL },
    visible: shown("seq", "turnId", "position"),
  }),
  "queue.dequeued": fact({
    meaning: "The frame `seq` left the queue: it went to the agent, or was `dropped` for the given reason.",
    source: "gateway",
    listed: "never",
    prompt: "seq",
    payload: { seq: SEQ, turnId: TEXT_OR_NULL, dropped: TEXT.optional() },
    visible: shown("seq", "turnId", "dropped"),
  }),
};
