import { z } from "zod";
import { OPTIONS, OUTCOME, PERSON, TOOL_CALL } from "../visible-parts.ts";
import { fact, hidden, NUMBER_OR_NULL, SEQ, shown, TEXT, TEXT_OR_NULL } from "./definition.ts";

/** `request` is the agent's request, `answer` the frame that answered it. */
const operation = (meaning: string) =>
  fact({
    meaning,
    source: "gateway",
    listed: "never",
    payload: { request: SEQ, answer: SEQ, ok: z.boolean() },
    visible: shown("request", "answer", "ok"),
  });

const VERDICT = z.enum(["ask", "allow", "reject"]);

/** Requests of the agent: permissions, questions, and the files and terminals that a host or a client served. */
export const REQUEST_FACTS = {
  "permission.policy": fact({
    meaning: "The workspace's permission policy, as it holds from here on.",
    source: "gateway",
    listed: "never",
    movesTimeout: true,
    payload: {
      default: VERDICT,
      byKind: z.record(z.string(), VERDICT),
      timeoutMs: NUMBER_OR_NULL,
      onTimeout: z.enum(["reject", "allow"]),
    },
    visible: { ...shown("default", "timeoutMs", "onTimeout"), byKind: "open" },
  }),
  "permission.requested": fact({
    meaning: "The agent asked for a permission; `toolCall` and `options` are those of its request.",
    source: "gateway",
    listed: "with-requests",
    webhook: "permission.pending",
    movesTimeout: true,
    payload: { request: SEQ, toolCall: z.unknown(), options: z.unknown() },
    visible: { request: "scalar", toolCall: TOOL_CALL, options: OPTIONS },
  }),
  "permission.responded": fact({
    meaning:
      "The permission request was answered: by a connection, by `policy`, by a cancel; `subject` is the person, if it was one.",
    source: "gateway",
    listed: "with-requests",
    payload: {
      request: SEQ,
      answer: NUMBER_OR_NULL,
      outcome: z.unknown(),
      by: TEXT_OR_NULL,
      subject: TEXT.optional(),
      why: TEXT_OR_NULL,
    },
    visible: { ...shown("request", "answer", "why"), by: "hidden", subject: PERSON, outcome: OUTCOME },
  }),
  "permission.withdrawn": fact({
    meaning: "The permission request no longer needs an answer.",
    source: "gateway",
    listed: "with-requests",
    payload: { request: SEQ, why: TEXT_OR_NULL },
    visible: shown("request", "why"),
  }),
  "permission.expired": fact({
    meaning: "Nobody answered in time and the policy had no answer; the request goes on waiting.",
    source: "gateway",
    listed: "never",
    payload: { request: SEQ, why: TEXT_OR_NULL },
    visible: shown("request", "why"),
  }),
  "question.requested": fact({
    meaning:
      "The agent asked a question; `message`, `requestedSchema` and `url` are those of its request. `mode` is `form` or `url`.",
    source: "gateway",
    listed: "with-requests",
    webhook: "question.pending",
    movesTimeout: true,
    payload: {
      request: SEQ,
      mode: TEXT,
      message: z.unknown(),
      requestedSchema: z.unknown(),
      url: z.unknown(),
      toolCallId: z.unknown(),
    },
    // A question may come from a tool's server, so its text counts as tool data.
    visible: { ...shown("request", "mode", "toolCallId"), ...hidden("message", "requestedSchema", "url") },
  }),
  "question.responded": fact({
    meaning:
      "The question was answered: by a connection, by a person over REST or a link, by a time-out, by a cancel; `subject` is the person, if it was one. `action` is `accept`, `decline` or `cancel`; the contents of an answer are in no event.",
    source: "gateway",
    listed: "with-requests",
    payload: {
      request: SEQ,
      answer: NUMBER_OR_NULL,
      action: TEXT_OR_NULL,
      by: TEXT_OR_NULL,
      subject: TEXT.optional(),
      why: TEXT_OR_NULL,
    },
    visible: { ...shown("request", "answer", "action", "why"), by: "hidden", subject: PERSON },
  }),
  "question.withdrawn": fact({
    meaning: "The question no longer needs an answer.",
    source: "gateway",
    listed: "with-requests",
    payload: { request: SEQ, why: TEXT_OR_NULL },
    visible: shown("request", "why"),
  }),
  "client.fs.read": operation("A file was read for the agent."),
  "client.fs.write": operation("A file was written for the agent."),
  "client.terminal.create": operation("A terminal was created for the agent."),
  "client.terminal.output": operation("The agent was given a terminal's output."),
  "client.terminal.wait_for_exit": operation("A command that the agent waited for ended."),
  "client.terminal.kill": operation("The command in a terminal was killed for the agent."),
  "client.terminal.release": operation("A terminal was released for the agent."),
};
