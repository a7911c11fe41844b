import { z } from "zod";
import { IndexUnavailable } from "../../index/index-unavailable.ts";
import { listSessions } from "../../index/session-index.ts";
import type { Caller } from "../../protocol/caller.ts";
import { ErrorCode, type RpcError } from "../../protocol/errors.ts";
import { MetaKey } from "../../protocol/extensions.ts";
import { type Refusal, rpcErrorOf } from "../../protocol/refusal.ts";
import type { SessionSummary } from "../../protocol/rest.ts";
import { schemaFault } from "../../protocol/schema-fault.ts";
import { ARCHIVE_FILTER } from "../../protocol/session-change.ts";

/** `session/list` for every agent: sessions of the caller's workspaces, from the gateway's own index. */
export async function listForClient(
  index: D1Database,
  caller: Caller,
  params: unknown,
): Promise<{ result: unknown } | { error: RpcError }> {
  const read = PARAMS.safeParse(params ?? {});
  if (!read.success) return { error: { code: ErrorCode.invalidParams, message: schemaFault(read.error) } };
  const cwd = read.data.cwd ?? undefined;
  const listed = await listSessions(index, caller, PAGE, {
    cursor: read.data.cursor ?? undefined,
    cwd,
    archived: read.data.archived ?? undefined,
  }).catch((error: unknown) => {
    if (error instanceof IndexUnavailable) return undefined;
    throw error;
  });
  if (!listed) return { error: rpcErrorOf(UNAVAILABLE) };
  const { sessions, nextCursor } = listed;
  const result = { sessions: sessions.map((session) => sessionInfo(session, cwd)) };
  return { result: nextCursor === null ? result : { ...result, nextCursor } };
}

/** Repeats the directory that the client asked for: the client may know the workspace by no other path. */
function sessionInfo(session: SessionSummary, cwd: string | undefined) {
  const { sessionId, clientCwd, title, archived, updatedAt, workspace, agent, state } = session;
  return {
    sessionId,
    cwd: cwd ?? clientCwd,
    title,
    updatedAt,
    archived,
    _meta: { [MetaKey.workspace]: workspace, [MetaKey.agent]: agent, [MetaKey.state]: state },
  };
}

const UNAVAILABLE: Refusal = {
  reason: "unavailable",
  message: "The list of sessions is not available now: try again",
  retryAfterMs: 1000,
};

const PAGE = 50;

const PARAMS = z.looseObject({
  cwd: z.string().max(4096).nullish(),
  archived: ARCHIVE_FILTER.nullish(),
  cursor: z
    .string()
    .regex(/^\S{1,40} [0-9a-f-]{36}$/, "not a cursor of session/list")
    .nullish(),
});
