import type { Caller } from "../../protocol/caller.ts";
import type { Subscriptions } from "../../protocol/client-subscriptions.ts";
import type { RpcError } from "../../protocol/errors.ts";
import type { Login } from "../../protocol/rpc.ts";

/** The connection for which a local method runs. */
export type ConnectionInfo = {
  readonly connection: string;
  readonly caller: Caller;
  readonly subscriptions: Subscriptions;
  readonly login?: Login;
  /** The id of a session that the client may open; a repeated request gets the id that it got before. */
  reserve(): Promise<{ sessionId: string } | { error: RpcError }>;
};

/** The answer of a local method. It may have attached the client to a session at the event `attachment`. */
export type LocalAnswer =
  | { result: unknown; attached?: { sessionId: string; attachment: number } }
  | { error: RpcError };
