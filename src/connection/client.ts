import { asObserver, type Caller } from "../protocol/caller.ts";
import type { ClientState } from "../protocol/client-state.ts";
import type { Subscriptions } from "../protocol/client-subscriptions.ts";
import type { Handover } from "../protocol/rpc.ts";

/** The state of one client, as the router and the methods see it over every transport. */
export type Client = {
  readonly state: ClientState;
  change(change: Partial<ClientState>): void;
  /** The sessions that the client is attached to, in the order of their attachment. */
  sessions(): readonly string[];
  /** Attaches the client to a session that will answer the request with this id. The request names no session. */
  expectOpen(sessionId: string, idText: string): void;
  /** Attaches the client to a session that it reads from the event `attachment` on. */
  attach(sessionId: string, attachment: number): void;
  /** Whether the client certainly has everything that it was sent, and will not ask for any of it again. */
  isCaughtUp(): boolean;
  /** Detaches the client from a session that has nothing more for it. */
  release(sessionId: string): void;
};

/** One message of a client. */
export type Exchange = {
  /** Sends the connection's answer to the message. */
  answer(text: string): void;
  /** Sends another message that follows from the message: a transport keeps one answer per message. */
  tell(text: string): void;
  /** The transport acknowledges the message only after this promise, which ends when a session has the message. */
  waitFor(handedOver: Promise<void>): void;
  /**
   * The message's session has not responded for long, and may have the message or not. The transport tells the client,
   * without an answer that the session may give as well.
   */
  undelivered(): void;
  /** The client's own number of the message, if the client may send it again under that number. */
  readonly number?: number;
  /** How long the transport keeps messages for a client that resumes a stream; absent: it resumes none. */
  readonly retentionSeconds?: number;
  /** The session that the client names beside the message. */
  readonly session?: string | undefined;
};

/** The rights of a client: those of its token, or those of an observer if it asked to observe. */
function rightsOf(caller: Caller, { observes }: Pick<Handover, "observes">): Caller {
  return observes ? asObserver(caller) : caller;
}

/** Continues with the token of the client's latest request. Returns the caller before. */
export function adoptCaller(client: Client, caller: Caller): Caller {
  const { caller: before } = client.state;
  client.change({ caller: rightsOf(caller, client.state) });
  return before;
}

/** The notifications beyond ACP that the client's sessions send it. */
export function subscriptionsOf({
  dialect,
  control,
  serves = [],
  abilities = [],
}: ClientState): Subscriptions {
  return { turnEnds: dialect === "container", agent: control === true, serves, abilities };
}
