import { z } from "zod";
import type { GitState, HostLoad } from "./host-wire.ts";
import type { Limits } from "./limits.ts";
import type { OpeningRules } from "./opening-rules.ts";
import type { PermissionOption, PermissionSummary } from "./permission.ts";
import type { QuestionMode } from "./question.ts";
import { ARCHIVE_FILTER } from "./session-change.ts";
import { WEBHOOK_MESSAGE_TYPES, type WebhookMessageType } from "./webhook-messages.ts";
import { type WebhookTargets, webhookTargetRefusal } from "./webhook-targets.ts";
import type { Settings } from "./workspace-settings.ts";

/**
 * The REST API: schemas of requests, which http/ validates, and types of responses, which http/ produces and cli/
 * reads. Times in responses are ISO 8601.
 */

/** The body of every error. Some codes add details, for example the `options` of a permission request. */
export type ErrorBody = { error: { code: string; message: string; [detail: string]: unknown } };

// ---- Lists ----------------------------------------------------------------------------------------------

export const PAGE_QUERY = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(500).optional(),
});

/** Pass `nextCursor` as `cursor` to get the next page; null after the last page. */
export type Paged<Items> = Items & { nextCursor: string | null };

// ---- Sessions -------------------------------------------------------------------------------------------

/** A session as lists show it. */
export type SessionSummary = {
  sessionId: string;
  workspace: string;
  agent: string;
  cwd: string;
  /** The directory as the client named it when it opened the session. */
  clientCwd: string;
  title: string | null;
  archived: boolean;
  state: string;
  createdAt: string;
  updatedAt: string;
  lastSeq: number;
};
export const SESSION_QUERY = PAGE_QUERY.extend({ archived: ARCHIVE_FILTER.optional() });
export type SessionList = Paged<{ sessions: SessionSummary[] }>;

/** The part of a session's projection, `acpx.session.v1`, that the command shows to people. */
export type SessionView = {
  acpxRecordId: string;
  agent: { name: string | null };
  workspace: { cwd: string | null; name: string | null };
  lifecycle: { createdAt: string; lastUsedAt: string };
  log: { lastSeq: number; archivedUpTo: number };
  state: string;
  title: string | null;
  agentStatus: string;
  host: { name: string; connected: boolean } | null;
  turn: { turnId: string } | null;
  turns: { total: number; recent: TurnSummary[] };
  queue: unknown[];
  pendingPermissions: {
    seq: number;
    title: string | null;
    kind: string | null;
    options?: PermissionOption[];
  }[];
  /** Missing in the view of an earlier release. */
  pendingQuestions?: { seq: number; mode: QuestionMode; message: string | null }[];
  lastError: unknown;
};

export type TurnSummary = {
  prompt: number;
  status: string;
  stopReason: string | null;
  reason: string | null;
  promptPreview: string;
  replyPreview: string;
};

export const AFTER = z.coerce.number().int().min(0).default(0);

/** A page of the log from the event after `after` on; without a limit, all of it. */
export const EVENTS_QUERY = z.object({
  after: AFTER,
  limit: z.coerce.number().int().min(1).default(Number.MAX_SAFE_INTEGER),
});

export const LIVE_EVENTS_QUERY = z.object({ after: AFTER });

/** A line of a session's log. */
export type LogLine = { seq: number; at: string; source: string; kind: string; payload: LogPayload };
export type LogPayload = { direction?: "in" | "out"; message?: LoggedMessage; stop?: string } & Record<
  string,
  unknown
>;
export type LoggedMessage = {
  id?: unknown;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: { code: number; message: string };
};

export const EXPORT_QUERY = z.object({ format: z.enum(["acpx", "markdown", "ndjson"]).default("acpx") });

export const IMPORT_QUERY = z.object({
  /** `new` imports a copy under a new id. */
  as: z.literal("new").optional(),
  workspace: z.string().min(1).optional(),
  agent: z.string().min(1).max(100).optional(),
});
export type ImportedSession = { sessionId: string; lastSeq: number; warnings?: string[] };

// ---- Shares ---------------------------------------------------------------------------------------------

export function shareRequest({ shareSeconds }: Pick<Limits, "shareSeconds">) {
  const day = 24 * 60 * 60;
  return z.strictObject({
    session: z.string(),
    /** Seconds. */
    expiresIn: z.number().int().min(1).max(shareSeconds).default(Math.min(day, shareSeconds)),
    /** Hides the inputs and outputs of tools. */
    redact: z.boolean().default(false),
  });
}

/** A link to one session, which its bearer may read until it expires. */
export type Share = {
  id: string;
  session: string;
  workspace: string;
  /** The subject who made the link, and when. */
  by: string;
  at: string;
  expiresAt: string;
  /** The link hides the inputs and outputs of tools. */
  redact: boolean;
  /** The link does not work while its maker is revoked. */
  suspended: boolean;
};
export type ShareList = { shares: Share[] };
/** The only response that contains the token. */
export type CreatedShare = Share & { token: string; url: string };

// ---- Permissions ----------------------------------------------------------------------------------------

export const PERMISSIONS_QUERY = PAGE_QUERY.extend({ state: z.literal("pending").default("pending") });

/** A permission request that waits for an answer. */
export type PendingPermission = {
  id: string;
  sessionId: string;
  seq: number;
  workspace: string;
  toolCallId: string | null;
  title: string | null;
  kind: string | null;
  /** Null when the options are too long for a list; the session's log has them. */
  options: PermissionOption[] | null;
  requestedAt: string;
};
/** One permission request with all that it asks for. */
export type PermissionRequest = PermissionSummary & { id: string; sessionId: string };

export type PermissionList = Paged<{ permissions: PendingPermission[] }>;

export const PERMISSION_ANSWER = z.object({ optionId: z.string().max(1024) });
export type AnsweredPermission = { id: string; outcome: { outcome: "selected"; optionId: string } };

export function answerLinksRequest({
  answerLinkSeconds,
  answerLinkMaxSeconds,
}: Pick<Limits, "answerLinkSeconds" | "answerLinkMaxSeconds">) {
  return z.strictObject({ expiresIn: z.int().min(1).max(answerLinkMaxSeconds).default(answerLinkSeconds) });
}

/** An option of a permission request, and the link that chooses it. */
export type LinkedOption = PermissionOption & { url: string };
export type AnswerLinks = { id: string; permission: string; expiresAt: string; links: LinkedOption[] };

// ---- Workspaces -----------------------------------------------------------------------------------------

/** A workspace as lists show it. */
export type WorkspaceSummary = {
  id: string;
  name: string | null;
  root: string | null;
  branch: string | null;
  defaultAgent: string | null;
  /** How many hosts are connected. */
  hosts: number;
  updatedAt: string;
};
export type WorkspaceList = Paged<{ workspaces: WorkspaceSummary[] }>;

export type WorkspaceView = {
  id: string;
  /** Of the host that connected last. */
  root: string | null;
  git: GitState | null;
  hosts: HostView[];
  agents: AgentInfo[];
  /** Null: the settings name no container. */
  containerState: ContainerView | null;
  /** The rules for openings by clients: the settings, with defaults in place of null. */
  opening: OpeningRules;
  /** Sessions that have an agent process or wait for one; `items` lists the first of them. */
  sessions: { total: number; items: SessionPlace[] };
} & Settings;

export type HostView = {
  name: string;
  state: "connected" | "draining" | "gone";
  root: string;
  version: string;
  linkVersion: number;
  /** How the host keeps agents from its token and from each other. */
  isolation?: string;
  node: string;
  platform: string;
  connectedAt: string;
  lastSeenAt: string;
  load: Partial<HostLoad> & { sessions: number; capacity: number };
  git: GitState | null;
  /** Whose token the host has: a revocation by `jti` ends the host. Null: the host joined before this was noted. */
  token: { subject: string; jti: string | null } | null;
  agents: string[];
};

export type AgentInfo = {
  id: string;
  name: string;
  default: boolean;
  /** An agent that is not available lacks what `reason` names. */
  available: boolean;
  reason: string | null;
  description: string | null;
  version: string | null;
  /** Other names by which clients may choose the agent. */
  aliases?: readonly string[];
  /** The agent was started before, so its capabilities are known. */
  ready: boolean;
  /** Why the last start of the agent failed. */
  error: string | null;
};
export type AgentList = { agents: AgentInfo[] };

/** `reason` is why the last start failed, and `retryAt` when the next may follow. */
export type ContainerView = {
  state: string;
  since: string;
  failures: number;
  reason: string | null;
  retryAt: string | null;
  /** The tokens that the gateway has issued to the container's host. */
  tokens: { jti: string; expiresAt: string }[];
};

export type SessionPlace = {
  sessionId: string;
  agent: string;
  host: string | null;
  state: "placed" | "waiting";
};

// ---- Secrets --------------------------------------------------------------------------------------------

/** Hosts pass secrets to agents as environment variables; `ACP_EDGE_` is reserved for the gateway's own. */
export const SECRET_NAME = z
  .string()
  .max(128)
  .regex(/^(?!ACP_EDGE_)[A-Za-z_][A-Za-z0-9_]*$/, "The name must be one of an environment variable");

export const SECRET_REQUEST = z.strictObject({
  value: z
    .string()
    .min(1)
    .max(32 * 1024)
    // An environment variable cannot contain NUL.
    .refine((value) => !value.includes("\0"), "The value must not contain NUL"),
});

/** The value of a secret is never shown. */
export type SecretInfo = { name: string; updatedAt: string };
export type SecretList = { secrets: SecretInfo[] };

// ---- Webhooks -------------------------------------------------------------------------------------------

export function webhookRequest(
  { webhookUrlChars }: Pick<Limits, "webhookUrlChars">,
  targets: WebhookTargets,
) {
  return z.strictObject({
    url: z
      .url({ protocol: /^https?$/, abort: true })
      .max(webhookUrlChars)
      .superRefine((url, issues) => {
        const message = webhookTargetRefusal(url, targets);
        if (message !== undefined) issues.addIssue({ code: "custom", message });
      })
      .refine((url) => !hasCredentials(url), "The address must not contain a user or a password"),
    events: z
      .array(z.enum(WEBHOOK_MESSAGE_TYPES))
      .min(1)
      .default([...WEBHOOK_MESSAGE_TYPES])
      .transform((types) => WEBHOOK_MESSAGE_TYPES.filter((type) => types.includes(type))),
    links: z.boolean().default(false),
  });
}

function hasCredentials(url: string): boolean {
  const { username, password } = new URL(url);
  return username !== "" || password !== "";
}

export type WebhookInfo = {
  id: string;
  /** Without the query, which may be a secret. */
  url: string;
  events: WebhookMessageType[];
  /** Messages about permission requests and questions contain links that answer them. */
  links: boolean;
  createdAt: string;
  /** How many messages are not delivered yet. */
  waiting: number;
  /** The last attempt; the status is null when the receiver did not respond. */
  lastDelivery: { at: string; status: number | null } | null;
  failingSince: string | null;
  /** How many messages were given up, or did not fit into the queue. */
  dropped: number;
  /** The subject who made or adopted the webhook; null for a webhook of an earlier build. */
  by: string | null;
  /** Why the webhook's messages wait; null while they are delivered. */
  pausedReason: WebhookPause | null;
};
/** A webhook of a revoked or unknown maker pauses until an administrator adopts it, or the revocation is lifted. */
export type WebhookPause = "maker-revoked" | "maker-unknown";
export type WebhookList = { webhooks: WebhookInfo[] };
/** The only response that contains the secret. */
export type CreatedWebhook = WebhookInfo & { secret: string };
