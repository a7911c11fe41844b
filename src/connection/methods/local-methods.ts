import type { Caller } from "../../protocol/caller.ts";
import type { Subscriptions } from "../../protocol/client-subscriptions.ts";
import type { RpcError } from "../../protocol/errors.ts";
import type { Frame } from "../../protocol/frame.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { LocalMethod } from "../route.ts";
import { forkSession } from "./fork.ts";
import { listForClient } from "./list.ts";

/** The connection for which a local method runs. */
export type ConnectionInfo = {
  readonly connection: string;
  readonly caller: Caller;
  readonly subscriptions: Subscriptions;
};

/** The answer of a local method. It may have attached the client to a session at the event `attachment`. */
export type LocalAnswer =
  | { result: unknown; attached?: { sessionId: string; attachment: number } }
  | { error: RpcError };

/** Answers a request that no single session can answer. */
export function callLocalMethod(
  env: Env,
  limits: Limits,
  info: ConnectionInfo,
  method: LocalMethod,
  frame: Frame,
): Promise<LocalAnswer> {
  switch (method) {
    case "session/list":
      return listForClient(env.INDEX, info.caller, frame.value.params);
    case "session/fork":
      return forkSession(env, limits, info, frame);
  }
}
