import type { Caller } from "./caller.ts";
import type { PermissionPolicy } from "./permission-policy.ts";
import type { NoticeType } from "./webhook-messages.ts";

/**
 * The contracts between Durable Objects, and between them and the Worker: arguments and results of their RPC methods.
 * An object imports these types instead of another object's code.
 */

// ---- Worker → connection

/** A client that the Worker has authenticated and hands to its connection. */
export type Handover = {
  connection: string;
  caller: Caller;
  workspace: string;
  agent: string | null;
  /** The client asked to observe, whatever its token allows. */
  looksOn?: true;
  /** The client came by `/agent/ws`, where control frames accompany the protocol's. */
  control?: true;
};

// ---- Session → connection

/** The receiving end of a cursor: the methods of a connection that a session calls. */
export type ClientPort = {
  /** How far the client has been served; null when the client is gone. */
  position(sessionId: string): Promise<Position | null>;
  deliver(sessionId: string, page: Page): Promise<Taken>;
};

/** A place in a client's reading: after an event, and after that many of the next event's frames. */
export type Place = { upTo: number; skip: number };

/** A place within one attachment: one event may show differently to another attachment. */
export type LogPlace = { readonly attach: number; readonly place: Place };

/**
 * `at` is null before the first delivery, and may be of an earlier attachment. A client that `rests` can take no more:
 * it gets nothing until it asks. A `numbered` client gets the place of each frame, and even while it rests the
 * `answers` it waits for.
 */
export type Position = {
  at: LogPlace | null;
  rests: boolean;
  numbered?: { answers: boolean };
};

/** `enough`: the page was taken, and the next one waits until the client asks. `later`: the page was not taken. */
export type Taken = "more" | "enough" | "later" | "gone";

/** Consecutive messages for one client. `attach` distinguishes the attachments of one connection. */
export type Page = { attach: number; upTo: number; frames: string[]; numbers?: Numbers };

/**
 * The places of a page's frames. The page is the client's next one only if the client is at `after`; the page begins
 * at `from`. Answers out of turn have no such place.
 */
export type Numbers = { marks: Mark[] } & ({ after: LogPlace; from: Place } | { from: null });

/** The event of a frame, the frame's place among that event's frames if more follow, and whether it is a response. */
export type Mark = { seq: number; part: number | null; answer: boolean };

// ---- Session → workspace

/** A session's request for an agent process. `wish` is the session's number of the request; each number is higher. */
export type PlacementRequest = {
  tenant: string;
  workspace: string;
  sessionId: string;
  agent: string;
  wish: number;
  /** The host that has the session's files. */
  home: string | null;
};

/** `refused` says why no host will ever run the process; null while one runs it or may run it later. */
export type PlacementAnswer = { refused: string | null; policy: PermissionPolicy; notices: NoticeType[] };

// ---- Workspace → session

/** News of a session's host. `wish` names the process request it concerns; the session may have made another since. */
export type HostStatusMessage = { host: string; wish: number; reason: string };

// ---- Workspace → container

/**
 * Starts and ends the host of a workspace that has none. On Cloudflare the AgentContainer does. The workspace knows
 * nothing else of containers, except what they report to `WorkspaceState.hostEnded` and ask by `isHostWanted`.
 */
export interface HostStarter {
  /** Starts the host unless it runs. Throws when the host cannot be started. */
  wake(order: HostOrder): Promise<void>;
  /** Ends the host, now or after its turns. False: no host runs. */
  sleep(now: boolean): Promise<boolean>;
}

export type HostOrder = {
  tenant: string;
  workspace: string;
  /** The workspace's number of this start, so that later reports name the start they concern. */
  life: number;
  /** The host's environment. */
  env: Record<string, string>;
};

// ---- Any object → tenant

/** An open socket, or a connection over HTTP, as its tenant knows it: whose it is, and which object can end it. */
export type SocketRegistration = {
  /** The id of the connection or of the socket, by which the holder finds it. */
  readonly id: string;
  readonly kind: "client" | "watcher" | "host";
  readonly tenant: string;
  readonly subject: string;
  readonly jti: string | null;
  /** Seconds since the epoch. */
  readonly expires: number;
  readonly holder: ObjectAddress;
};

/** The object that holds a registered socket, by its class and its name. */
export type ObjectAddress = { readonly class: "connection" | "session" | "workspace"; readonly name: string };

/**
 * What a subject may do per hour, over all its connections. Its tenant counts: a connection gets a part of the rest,
 * an allowance, and spends it without asking. A granted allowance counts as spent, so the sum is never exceeded.
 */
export type Quota = "sessions" | "prompts" | "chars" | "reserve";
export type Amounts = { readonly [Name in Quota]?: number };

/** What one connection may still spend, of the quotas of one hour. */
export type Allowance = { readonly hour: number; readonly left: Amounts };
