import type { Caller } from "../protocol/caller.ts";
import { clientRequestId } from "../protocol/ids.ts";
import { redactedOptions } from "../session/core/read/redaction/redaction.ts";
import { inWorkspacesOf } from "./workspace-filter.ts";

type Row = {
  session: string;
  seq: number;
  workspace: string;
  tool_call_id: string | null;
  title: string | null;
  kind: string | null;
  options: string | null;
  requested_at: string;
};

export type PendingPermission = {
  id: string;
  sessionId: string;
  seq: number;
  workspace: string;
  toolCallId: string | null;
  title: string | null;
  kind: string | null;
  /** Null when there was too much of them to keep; they are in the session's log. */
  options: unknown;
  requestedAt: string;
};

/** A page of what waits in the caller's sessions, the oldest first. The cursor is the last line of the page before. */
export async function listPermissions(
  index: D1Database,
  caller: Caller,
  limit: number,
  cursor?: string,
): Promise<{ permissions: PendingPermission[]; nextCursor: string | null }> {
  const [requestedAt, session, seq] = cursor?.split(" ") ?? [];
  const mine = inWorkspacesOf(caller);
  const where = ["tenant = ?", mine.where];
  const values: (string | number)[] = [caller.tenant, ...mine.values];
  if (caller.session !== undefined) {
    where.push("session = ?");
    values.push(caller.session);
  }
  if (requestedAt !== undefined && session !== undefined && seq !== undefined) {
    where.push("(requested_at, session, seq) > (?, ?, ?)");
    values.push(requestedAt, session, Number(seq));
  }
  const { results } = await index
    .prepare(
      `SELECT * FROM permissions WHERE ${where.join(" AND ")} ORDER BY requested_at, session, seq LIMIT ?`,
    )
    .bind(...values, limit + 1)
    .all<Row>();
  const page = results.slice(0, limit);
  const last = page.at(-1);
  return {
    permissions: page.map((row) => pending(caller, row)),
    nextCursor: results.length > limit && last ? `${last.requested_at} ${last.session} ${last.seq}` : null,
  };
}

function pending({ redacted }: Caller, row: Row): PendingPermission {
  const { session, seq, workspace, tool_call_id, title, kind, requested_at } = row;
  const options = redacted && row.options !== null ? redactedOptions(row.options) : row.options;
  return {
    id: clientRequestId(session, seq),
    sessionId: session,
    seq,
    workspace,
    toolCallId: tool_call_id,
    title,
    kind,
    options: options === null ? null : (JSON.parse(options) as unknown),
    requestedAt: requested_at,
  };
}
