import type { PermissionDetail } from "./permission-details.ts";
import type { QuestionMode } from "./question.ts";

/** The messages that the webhooks of a workspace get. */

/** The types of messages that sessions cause. */
export const WEBHOOK_MESSAGE_TYPES = [
  "permission.pending",
  "question.pending",
  "turn.ended",
  "agent.failed",
] as const;
export type WebhookMessageType = (typeof WEBHOOK_MESSAGE_TYPES)[number];

export type WebhookMessage =
  | Message<"permission.pending", About & { permission: AnnouncedPermission; requestedAt: string }>
  | Message<"question.pending", About & { question: AnnouncedQuestion; requestedAt: string }>
  | Message<"turn.ended", About & TurnEndedData>
  | Message<"agent.failed", About & { agent: string; detailCode: string | null; message: string }>;

/** A person sends a ping to see whether messages arrive. */
export type Ping = Message<"ping", { workspace: string; webhook: string }>;

/** The body of a message; `timestamp` is the time of its cause. */
type Message<Type extends string, Data> = { type: Type; timestamp: string; data: Data };

type About = { workspace: string; sessionId: string; sessionTitle: string | null };

export type AnnouncedPermission = {
  /** The id of the request for clients and for `/api/permissions/:id`. */
  id: string;
  toolCallId: string | null;
  /** On one line, with invisible characters marked. */
  title: string | null;
  kind: string | null;
  /** All that the request asks for, with invisible characters marked, see docs/webhooks.md. */
  details: PermissionDetail[];
  /** `url` is an answer link: whoever has it can choose the option. */
  options: { optionId: string; name: string | null; kind: string | null; url?: string }[];
};

export type AnnouncedQuestion = {
  /** The id of the request for clients and for `/api/questions/:id`. */
  id: string;
  mode: QuestionMode;
  /** With invisible characters marked. A longer message is cut. */
  message: string;
  toolCallId: string | null;
  /** The form; null in `url` mode, or when the form is too long for a message. */
  requestedSchema: unknown;
  /** The address; null in `form` mode, or when the address is too long for a message. */
  url: string | null;
  /** An answer link: whoever has it can answer. */
  link?: string;
};

export type TurnEndedData = {
  turnId: string | null;
  outcome: "completed" | "cancelled" | "failed";
  stopReason?: string;
  error?: { code: number | null; message: string };
};

/** A message that a session hands to its workspace. */
export type HandedMessage = {
  /** Identifies the message: a message handed over twice counts once. */
  id: string;
  type: WebhookMessageType;
  /** A `WebhookMessage` as JSON. */
  body: string;
  /** The number of earlier messages that were dropped for lack of room. */
  lost: number;
};
