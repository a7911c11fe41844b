import { type Caller, roleOf } from "../protocol/caller.ts";
import { ErrorCode, forbidden, type RpcError } from "../protocol/errors.ts";
import type { Frame } from "../protocol/frame.ts";
import type { Hears } from "../protocol/news.ts";
import { forkSession } from "./fork.ts";
import { listForClient } from "./list.ts";

/** What a connection knows of itself when one of its own methods is called. */
export type Here = {
  connection: string;
  caller: Caller;
  hears: Hears;
  /** The connection's sessions, the newest last. */
  sessions: readonly string[];
};

/**
 * What comes of it: an answer from here, with the session it `opened` and from where that is read on, or the
 * session that is to answer.
 */
export type Own =
  | { result: unknown; opened?: { sessionId: string; attach: number } }
  | { error: RpcError }
  | { forward: string };

/** Requests that no session, or not only one, can answer; undefined for all others. */
export async function ownMethod(env: Env, here: Here, frame: Frame): Promise<Own | undefined> {
  if (frame.kind !== "request") return undefined;
  const method = frame.method as string;
  if (CONTROLLERS_ONLY.has(method) && roleOf(here.caller) === "observer") return { error: forbidden(method) };
  switch (method) {
    case "session/list":
      return listForClient(env.INDEX, here.caller, frame.value.params);
    case "session/fork":
      return forkSession(env, here, frame);
    case "authenticate":
    case "logout":
      return toAnyAgent(here, method);
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

/** These are for an agent process, and a connection has one only through a session. */
function toAnyAgent({ sessions }: Here, method: string): Own {
  const newest = sessions.at(-1);
  if (newest !== undefined) return { forward: newest };
  const message = `There is no agent for ${method} yet: open a session first. An agent that wants a login says so there`;
  return { error: { code: ErrorCode.internal, message } };
}
