/** What a workspace tells those who asked to be told: the messages its webhooks get. */

/** Those that come from sessions. */
export const NOTICE_TYPES = ["permission.pending", "turn.ended", "agent.failed"] as const;
export type NoticeType = (typeof NOTICE_TYPES)[number];

export type SessionNotice =
  | Message<"permission.pending", About & { permission: PendingPermission; requestedAt: string }>
  | Message<"turn.ended", About & TurnEnd>
  | Message<"agent.failed", About & { agent: string; detailCode: string | null; message: string }>;

/** Asked for by a person who wants to see whether it arrives. */
export type Ping = Message<"ping", { workspace: string; webhook: string }>;

/** A body; `timestamp` is when it happened. */
type Message<Type extends string, Data> = { type: Type; timestamp: string; data: Data };

type About = { workspace: string; sessionId: string; sessionTitle: string | null };

export type PendingPermission = {
  /** As clients know the request, and `/api/permissions/:id`. */
  id: string;
  toolCallId: string | null;
  title: string | null;
  kind: string | null;
  /** `url` chooses the option, for whoever has it. */
  options: { optionId: string; name: string | null; kind: string | null; url?: string }[];
};

export type TurnEnd = {
  turnId: string | null;
  outcome: "completed" | "cancelled" | "failed";
  stopReason?: string;
  error?: { code: number | null; message: string };
};

/** A notice on its way from its session to the workspace. */
export type HandedNotice = {
  /** Its own for good: handed over twice it counts once. */
  id: string;
  type: NoticeType;
  /** A `SessionNotice` as JSON. */
  body: string;
  /** How many before it there was no room for. */
  lost: number;
};
