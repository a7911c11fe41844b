import { type Caller, roleOf } from "../../protocol/caller.ts";
import type { Subscriptions } from "../../protocol/client-subscriptions.ts";
import { forbidden, type RpcError } from "../../protocol/errors.ts";
import type { RequestFrame } from "../../protocol/frame.ts";
import { forkSession } from "./fork.ts";
import { listForClient } from "./list.ts";

/** What a connection knows of itself when one of its own methods is called. */
export type Here = {
  connection: string;
  caller: Caller;
  subscriptions: Subscriptions;
};

/**
 * What comes of it: an answer from here, with the session it `opened` and from where that is read on, or it is for
 * an agent's process.
 */
export type Own =
  | { result: unknown; opened?: { sessionId: string; attach: number } }
  | { error: RpcError }
  | { forProcess: true };

/** Requests that no session, or not only one, can answer; undefined for all others. */
export async function ownMethod(env: Env, here: Here, frame: RequestFrame): Promise<Own | undefined> {
  const { method } = frame;
  if (CONTROLLERS_ONLY.has(method) && roleOf(here.caller) === "observer") return { error: forbidden(method) };
  switch (method) {
    case "session/list":
      return listForClient(env.INDEX, here.caller, frame.value.params);
    case "session/fork":
      return forkSession(env, here, frame);
    case "authenticate":
    case "logout":
      return { forProcess: true };
    default:
      return undefined;
  }
}

/** In a session it is the session that refuses. */
const CONTROLLERS_ONLY: ReadonlySet<string> = new Set([
  "session/new",
  "session/fork",
  "session/delete",
  "authenticate",
  "logout",
]);
