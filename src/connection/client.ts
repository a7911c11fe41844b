import type { ClientState } from "../durable/attachments.ts";
import { asObserver, type Caller } from "../protocol/caller.ts";
import type { Subscriptions } from "../protocol/client-subscriptions.ts";
import type { Handover } from "../protocol/rpc.ts";

/** What a client may do: all its token says, unless it has come to look on. */
export function rightsOf(caller: Caller, { looksOn }: Pick<Handover, "looksOn">): Caller {
  return looksOn ? asObserver(caller) : caller;
}

/** What its session is to tell it besides the messages of ACP. */
export function subscriptionsOf({ dialect, control, serves = [] }: ClientState): Subscriptions {
  return { turnEnds: dialect === "container", agent: control === true, serves };
}

/** One client as the router sees it. */
export type Client = {
  readonly state: ClientState;
  change(change: Partial<ClientState>): void;
  /** It goes on with another token. */
  renew(caller: Caller): void;
  /** The sessions it is attached to. */
  sessions(): readonly string[];
  /** A session, perhaps a new one, is about to answer the request with that id, which names no session itself. */
  opens(sessionId: string, idText: string): void;
  /** It has got one, and reads it from there. */
  opened(sessionId: string, attach: number): void;
  /** Whether it is known to have all it was sent: it is not going to ask for any of that again. */
  hasAll(): boolean;
  /** There is nothing more to come from a session. */
  letsGo(sessionId: string): void;
};

/** One message of a client: where its answer goes, and who waits until a session has the message. */
export type Exchange = {
  answer(text: string): void;
  waitFor(handedOver: Promise<void>): void;
  /** The client's own number of the message, if it may come again under the same one. */
  readonly number?: number;
  /** The session a client names beside the message. */
  readonly session?: string | undefined;
};
