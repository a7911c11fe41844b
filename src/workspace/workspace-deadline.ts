/** The deadlines of a workspace. */
export type WorkspaceDeadline =
  | "grace"
  | "session-messages"
  | "view"
  | "index"
  | "reindex"
  | "host-token"
  | "registration"
  | "container"
  | "container-token"
  | "ended-tokens"
  | "webhooks"
  /** An effect of a change has failed. */
  | "effects";

/** Pause before failed effects of a change run again; the deadline's own pauses follow. */
export const EFFECTS_RETRY_MS = 1000;
