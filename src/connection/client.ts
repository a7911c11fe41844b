import { asObserver, type Caller } from "../protocol/caller.ts";
import type { DialectName } from "../protocol/dialects/index.ts";

/** What the Worker tells a connection when it hands over its client. */
export type Handover = {
  connection: string;
  caller: Caller;
  workspace: string;
  agent: string | null;
  /** It wants to look on, whatever its token allows. */
  looksOn?: true;
  /** It came by `/agent/ws`, where there are control frames beside the protocol's. */
  control?: true;
};

/** What a connection remembers of its client, however that is connected. */
export type ClientState = Handover & {
  initialized: boolean;
  /** What the client speaks in place of canonical ACP. */
  dialect: DialectName | null;
  /** Frames sent on to sessions so far. */
  sent: number;
};

/** What a client may do: all its token says, unless it has come to look on. */
export function rightsOf(caller: Caller, { looksOn }: Pick<Handover, "looksOn">): Caller {
  return looksOn ? asObserver(caller) : caller;
}

/** One client as the router sees it. */
export type Client = {
  readonly state: ClientState;
  change(change: Partial<ClientState>): void;
  /** It goes on with another token. */
  renew(caller: Caller): void;
  /** The sessions it is attached to. */
  sessions(): readonly string[];
  /** It is about to get a session of its own, as the answer to the request with that id. */
  opens(sessionId: string, idText: string): void;
  /** It has got one, and reads it from there. */
  opened(sessionId: string, attach: number): void;
};

/** One message of a client: where its answer goes, and who waits until a session has the message. */
export type Exchange = {
  answer(text: string): void;
  waitFor(handedOver: Promise<void>): void;
  /** The session a client names beside the message. */
  readonly session?: string | undefined;
};
