import type { Caller } from "../protocol/caller.ts";
import { listWaiting, replaceWaiting, type WaitingRow, waitingTable } from "./waiting-requests.ts";

/** A permission request that waits for an answer, as a row of the D1 table `permissions`. */
type OfPermission = {
  toolCallId: string | null;
  title: string | null;
  kind: string | null;
  /** JSON text; null when the options were too long for the index. The session's log has them. */
  options: string | null;
};

export type IndexedPermission = WaitingRow & OfPermission & { id: string };

const PENDING = waitingTable<OfPermission>("permissions", {
  toolCallId: "tool_call_id",
  title: "title",
  kind: "kind",
  options: "options",
});

/** A page of the permission requests that wait in the caller's sessions, oldest first. */
export async function listPermissions(
  index: D1Database,
  caller: Caller,
  limit: number,
  cursor?: string,
): Promise<{ permissions: IndexedPermission[]; nextCursor: string | null }> {
  const { rows: permissions, nextCursor } = await listWaiting(index, PENDING, caller, limit, cursor);
  return { permissions, nextCursor };
}

/** Replaces all permission requests of one session, see `replaceWaiting`. */
export function replacePermissions(
  index: D1Database,
  entry: { sessionId: string; lastSeq: number; tenant: string; workspace: string; permissions: string },
): D1PreparedStatement[] {
  const values = {
    tool_call_id: "value ->> 'toolCallId'",
    title: "value ->> 'title'",
    kind: "value ->> 'kind'",
    options: "value -> 'options'",
  };
  return replaceWaiting(index, "permissions", values, entry, entry.permissions);
}
