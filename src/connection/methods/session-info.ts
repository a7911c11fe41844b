import { z } from "zod";
import { callObject } from "../../durable/object-call.ts";
import { type SessionObject, sessionObject } from "../../durable/objects.ts";
import { ErrorCode } from "../../protocol/errors.ts";
import { type Frame, paramsOf } from "../../protocol/frame.ts";
import { isUuid } from "../../protocol/ids.ts";
import { type Result, rpcErrorOf, unknownSession } from "../../protocol/refusal.ts";
import { SESSION_CHANGE, type SessionChange } from "../../protocol/session-change.ts";
import type { ConnectionInfo, LocalAnswer } from "./local-answer.ts";

/** Methods about a session that need no agent and attach nobody: its title, its place in lists, its status. */

/** `session/status`: whether a process has the session. Asking starts nothing. */
export function statusForClient(env: Env, info: ConnectionInfo, frame: Frame): Promise<LocalAnswer> {
  return askSession(
    ...([env, info, frame] as const),
    (session) => session.status(info.caller),
    (status) => ({ status }),
  );
}

/** `session/set_title`, `session/archive` and `session/unarchive`. */
export async function changeForClient(
  env: Env,
  info: ConnectionInfo,
  method: "session/set_title" | "session/archive" | "session/unarchive",
  frame: Frame,
): Promise<LocalAnswer> {
  const isTitle = method === "session/set_title";
  const wanted = isTitle ? { title: paramsOf(frame).title } : { archived: method === "session/archive" };
  const read = SESSION_CHANGE.safeParse(wanted);
  if (!read.success)
    return { error: { code: ErrorCode.invalidParams, message: z.prettifyError(read.error) } };
  const change: SessionChange = read.data;
  return askSession(
    ...([env, info, frame] as const),
    (session) => session.change(info.caller, change, info.connection),
    ({ title }) => (isTitle ? { title } : {}),
  );
}

async function askSession<T>(
  env: Env,
  { caller }: ConnectionInfo,
  { sessionId }: Frame,
  ask: (session: SessionObject) => Promise<Result<T>>,
  result: (value: T) => unknown,
): Promise<LocalAnswer> {
  if (sessionId === undefined)
    return { error: { code: ErrorCode.invalidParams, message: "params.sessionId must be a string" } };
  const answer = isUuid(sessionId)
    ? await callObject(() => sessionObject(env, caller.tenant, sessionId), ask)
    : undefined;
  if (answer?.ok) return { result: result(answer.value) };
  return { error: rpcErrorOf(answer?.refusal ?? unknownSession(sessionId)) };
}
