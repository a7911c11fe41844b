import type { Caller } from "./caller.ts";
import type { Subscriptions } from "./client-subscriptions.ts";
import type { CloseMeaning } from "./close-meaning.ts";
import type { Cursor, EventCursor } from "./cursor.ts";
import type { Maker } from "./maker.ts";
import type { IoServer } from "./methods.ts";
import type { OpeningRules } from "./opening-rules.ts";
import type { PermissionPolicy } from "./permission-policy.ts";
import type { Versioned } from "./versions.ts";
import type { WebhookMessageType } from "./webhook-messages.ts";
import type { DuplicateChunks } from "./workspace-settings.ts";

/**
 * The contracts between Durable Objects, and between them and the Worker: arguments and results of their RPC methods.
 * An object imports these types instead of another object's code.
 *
 * During a deploy objects of two releases call each other, so a contract changes by additions only: a method stays, and
 * a new argument or field is optional. Values that move a reader or change a session carry their version.
 */

// ---- Worker → connection

/** A client that the Worker has authenticated and hands to its connection. */
export type Handover = {
  connection: string;
  caller: Caller;
  workspace: string;
  agent: string | null;
  /** The client asked to observe, whatever its token allows. */
  observes?: true | undefined;
  /** The client came by `/agent/ws`, where control frames accompany the protocol's. */
  control?: true | undefined;
};

// ---- Session → connection: delivery of the session's log to one client

/** A connection, as its sessions see it: the receiving end of their frames. */
export type ClientPort = {
  /** Attaches the client to the session, if it is not, and says where it is. Null when the client is gone. */
  startReading(sessionId: string): Promise<ReaderPosition | null>;
  deliver(sessionId: string, page: Page): Promise<DeliveryResult>;
};

export type ReaderPosition = Versioned & {
  /** Null when nothing has been delivered yet. The cursor may belong to an earlier attachment. */
  readonly cursor: Cursor | null;
  /** The client has no room: the session sends nothing before the client is ready again. */
  readonly rests: boolean;
  /** The client wants a mark for each frame. While it rests, `awaitsAnswers` says whether it waits for responses. */
  readonly marks?: { readonly awaitsAnswers: boolean };
};

/** Consecutive frames for one client, up to the cursor `end`. */
export type Page = Versioned & {
  readonly end: EventCursor;
  readonly frames: string[];
  /**
   * Of sessions of release 0.1.0: some frames name another session than this one, and the connection checks whether the
   * client has that session.
   */
  readonly namesOthers?: true;
  readonly marks?: PageMarks;
};

/**
 * Where the frames of a page stand in the log, one mark per frame. A page `in-turn` continues the client's reading: it
 * is its next page only if the client's cursor is `after`, and its first frame comes right after `from`. A page of
 * `answers` consists of responses out of turn, and moves no cursor.
 */
export type PageMarks =
  | { readonly kind: "in-turn"; readonly after: Cursor; readonly from: Cursor; readonly frames: FrameMark[] }
  | { readonly kind: "answers"; readonly frames: FrameMark[] };

export type FrameMark = {
  /** The event that the frame renders. */
  readonly seq: number;
  /** The frame's index among that event's frames; null for the last one of them. */
  readonly part: number | null;
  readonly isAnswer: boolean;
};

/**
 * `more`: the page was taken. `enough`: it was taken, and the client has no room for another. `later`: the page was not
 * taken. `gone`: the client is gone.
 */
export type DeliveryResult = "more" | "enough" | "later" | "gone";

// ---- Session → workspace

/** A session's request for an agent process. `processRequest` is the session's number of it, higher each time. */
export type PlacementRequest = {
  tenant: string;
  workspace: string;
  sessionId: string;
  agent: string;
  processRequest: number;
  /** The host that has the session's files. */
  home: string | null;
};

/** `unavailable` says why no host will ever run the process; null while one runs it or may run it later. */
export type PlacementAnswer = {
  unavailable: string | null;
  policy: PermissionPolicy;
  webhookTypes: WebhookMessageType[];
  /** The workspace knows the session from now on. */
  enrolled?: true;
  /** The ids of the modes last known of the agent: the session reports other ones. */
  modes?: readonly string[];
};

/**
 * Where the workspace has placed a process: no other host may serve the session with it. `io` is the side that serves
 * the process's files and terminals, `opening` says what clients may bring along to sessions that the process opens,
 * `closeMeans` what a client's `session/close` means from now on.
 */
export type ProcessPlacement = {
  host: string;
  io: IoServer;
  opening: OpeningRules;
  closeMeans?: CloseMeaning;
  /** The workspace's setting of this name; absent: `replay`. */
  duplicateChunks?: DuplicateChunks | undefined;
};

// ---- Connection → session

/** An `authenticate` or `logout` that an agent has accepted, with its credentials. */
export type Login = { readonly agent: string; readonly raw: string };

/** Makes a session for a client. */
export type OpenRequest = Versioned & {
  sessionId: string;
  connection: string;
  caller: Caller;
  workspace: string;
  agent: string;
  /** The client's `session/new`; null while the client has yet to log in and the session is only expected. */
  raw: string | null;
  subscriptions: Subscriptions;
  /** The client's login, for an agent that wants one. */
  login?: Login;
};

/** Frames of one client with their numbers. Numbers grow, so that the session recognises a frame that comes twice. */
export type ClientFrames = Versioned & {
  connection: string;
  caller: Caller;
  numbers: number[];
  frames: string[];
  subscriptions: Subscriptions;
  /** The call is repeated: an earlier one with these frames, or some of them, got no answer. */
  repeated?: boolean;
  /** The login of a client that loads or resumes the session. */
  login?: Login;
};

/**
 * The frames of a batch that the session failed to handle, by their numbers. They left no trace, so they fail again when
 * the batch is repeated. A failure that a repeated batch would not show is answered through the log instead.
 */
export type ReceivedFrames = { failed: readonly number[] };

/**
 * A client leaves a session. `closes`: the client asks for `session/close`, which may end the session instead; `frame` is
 * that request, if the log has to have it. `number` is the number of the client's message.
 */
export type LeaveOrder = Versioned & {
  caller: Caller;
  number: number;
  subscriptions: Subscriptions;
  closes: boolean;
  frame: string | null;
};

/**
 * `ended`: the session is closed, and the log has the answer to the order's frame. Otherwise the client is detached, and
 * gets no answers to its `open` requests from the session: their ids as JSON text, and their methods.
 */
export type Left = { ended: boolean; open: readonly { readonly id: string; readonly method: string }[] };

/** Makes a session a copy of another one, and attaches the client that asked for it. */
export type ForkOrder = Versioned & {
  sessionId: string;
  from: string;
  /** The last event to copy; null for all events. */
  at: number | null;
  connection: string;
  caller: Caller;
  /** JSON: parameters for the `session/new` of the copy's own agent. */
  opening: string;
  subscriptions: Subscriptions;
  login?: Login;
};

/** The event by which the client is attached to a fork, and the modes and settings of `session/new`, as JSON. */
export type Forked = { attach: number; setup: string };

// ---- Worker and session → session

/** The facts of a session that a copy of it needs. */
export type SessionOrigin = {
  workspace: string;
  agent: string;
  lastSeq: number;
  /** The agent's own id of its session; null before the agent has opened one. */
  agentSession: string | null;
  /** The rules for openings under which the session's process runs, if it has one, and the process's directory. */
  opening?: { rules: OpeningRules; root: string };
};

/** A session to be imported, and its new owner. */
export type ImportOrder = Versioned & {
  /** The id of the session here, and the id it had. */
  sessionId: string;
  recordId: string;
  format: "acpx" | "record" | "fork";
  caller: Caller;
  workspace: string;
  /** The agent that continues the session. Null: the agent it had, or else `defaultAgent`, the workspace's default. */
  agent: string | null;
  defaultAgent: string;
  /** The session's directory, if the log does not name it. */
  cwd: string | null;
  /** JSON: parameters for a `session/new` of its own, instead of those in the log. */
  opening?: string;
  /**
   * The import is a copy beside the original. `originSeq` is the original's last event, `agentSession` its agent
   * session; null if nobody knows them.
   */
  copy?: { originSeq: number | null; agentSession: string | null };
};

/** Why a session cannot be imported. `file` and `line` say where in the import the reason stands, if they are known. */
export type ImportFault = { file: string | null; line: number | null; message: string };

/** Consecutive events as NDJSON. `last` is the last event's number, or `after` for an empty page. */
export type EventsPage = Versioned & { text: string; last: number; count: number };

/** Where a reader of segment files stands: its last event, and the size of the current segment up to that event. */
export type SegmentCursor = { after: number; bytes: number; events: number };

/** A piece of one segment. `ends` is true when the next line, if there is one, belongs to the next segment. */
export type SegmentPage = Versioned & {
  bytes: Uint8Array;
  cursor: SegmentCursor;
  ends: boolean;
  turns: TurnMark[];
};

/** A fact about a turn as the index of turns in an export needs it. */
export type TurnMark = {
  status: string;
  seq: number;
  at: string;
  turnId: string;
  prompt: number | null;
  stopReason: string | null;
};

// ---- Connection → workspace

/** The agent of a connection; `initialize` is the agent's response to that method as JSON, if it is known. */
export type SelectedAgent = {
  agent: string;
  initialize: string | null;
  /** The ids of the modes last known of the agent in the workspace. */
  modes?: readonly string[];
  /** The workspace's settings `closeWithLastClient` and `clientAgentName`. */
  closeWithLastClient?: boolean;
  agentName?: string;
};

// ---- Workspace → session

/**
 * News of a session's host. `processRequest` is the number of the process request that the news concern: the session
 * may have made another request since.
 */
export type HostStatusMessage = { host: string; processRequest: number; reason: string };

// ---- Workspace → container

/**
 * Starts and ends the host of a workspace that has none. On Cloudflare the AgentContainer does. The workspace knows
 * nothing else of containers, except what they report to `WorkspaceState.hostEnded` and ask by `isHostWanted`.
 */
export interface HostStarter {
  /** Starts the host unless it runs. Throws when the host cannot be started. */
  wake(order: HostOrder): Promise<void>;
  /** Ends the host after its turns. False: no host runs. */
  drain(): Promise<boolean>;
  /** Ends the host now. False: no host runs. */
  end(): Promise<boolean>;
}

export type HostOrder = {
  tenant: string;
  workspace: string;
  /** The workspace's number of this start, so that later reports name the start they concern. */
  startNumber: number;
  /** The host's environment. */
  env: Record<string, string>;
};

// ---- Worker → tenant

/** A revocation covers one token, all tokens of a subject, or everybody's access to a session. */
export type RevocationKind = "jti" | "subject" | "session";

/**
 * `until` is in milliseconds since the epoch; null: until the revocation is lifted. With a `workspace` the order covers
 * only tokens that are valid in that workspace and nowhere else.
 */
export type RevocationOrder = {
  kind: RevocationKind;
  value: string;
  workspace: string | null;
  until: number | null;
};

/** The parts of a caller that revocations are about. `workspace` is the only one in which its token is valid. */
export type RevocableToken = {
  readonly subject: string;
  readonly jti?: string | null | undefined;
  readonly workspace: string | null;
};

/** `expires` is in milliseconds since the epoch. */
export type ShareOrder = { session: string; workspace: string; expires: number; redact: boolean };

/** A session that nobody may use any more: the connections it was open in, and how many watchers it has dismissed. */
export type RevokedSession = { workspace: string; connections: string[]; watchers: number };

/** Answer links that were made together. `expires` is in milliseconds since the epoch. */
export type AnswerLinkRegistration = {
  id: string;
  session: string;
  workspace: string;
  seq: number;
  expires: number;
};

// ---- Any object → tenant

/** A webhook of a workspace, as its tenant knows it: a revocation of its maker pauses the webhook. */
export type WebhookRegistration = { readonly id: string; readonly workspace: string; readonly maker: Maker };

/** An open socket, or a connection over HTTP, as its subject's object knows it: whose it is, and which object can end it. */
export type SocketRegistration = {
  /** The id of the connection or of the socket, by which the holder finds it. */
  readonly id: string;
  readonly kind: "client" | "watcher" | "host";
  readonly tenant: string;
  readonly subject: string;
  readonly jti: string | null;
  /** The only workspace in which the token is valid; null if there may be others. */
  readonly workspace: string | null;
  /** Seconds since the epoch. */
  readonly expires: number;
  readonly holder: ObjectAddress;
  /** Names this entry of the socket: a client that comes back enters with the same id. */
  readonly entry?: string;
};

/** `too-many`: the subject has as many sockets as it may have. */
export type RegistrationResult = "registered" | "revoked" | "too-many";

/** `known`: the socket is registered already, or reserved. `too-many`: the subject has as many as it may have. */
export type ReservationResult = "reserved" | "known" | "too-many";

/** The object that holds a registered socket, by its class and its name. */
export type ObjectAddress = { readonly class: "connection" | "session" | "workspace"; readonly name: string };

/**
 * Limits of a subject per hour, over all its connections. The subject's object counts: a connection gets a part of the rest,
 * an allowance, and spends it without asking. A granted allowance counts as spent, so the sum is never exceeded.
 */
export type Quota = "sessions" | "prompts" | "chars" | "reserve";
export type Amounts = { readonly [Name in Quota]?: number };

/** The rest that one connection may spend of the quotas of one hour. */
export type Allowance = { readonly hour: number; readonly left: Amounts };
