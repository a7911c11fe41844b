import { type Refusal, type Refused, refused } from "../protocol/refusal.ts";
import type { ImportOrder } from "../protocol/rpc.ts";
import { NewerVersion } from "../protocol/versions.ts";
import { mayOpenIn } from "./access.ts";
import type { SessionContext } from "./session-parts.ts";
import { isStaged } from "./transfer/object/session-import.ts";

/** Says nothing about the session that is under the id, if there is one. */
const CANNOT_OPEN = "The session could not be opened: ask for another one";
export const NOT_OPENED = refused<Refusal>({ reason: "conflict", message: CANNOT_OPEN });

/** A release before the one that wrote the session cannot read it, and leaves it as it is. */
export function refuseNewer(error: unknown): Refused {
  if (error instanceof NewerVersion) return refused({ reason: "unavailable", message: error.message });
  throw error;
}

/** Whether an import, or the end of another session, is under way under this id. */
export function isBeingChanged({ ctx, removal, tables }: SessionContext): boolean {
  return removal.isUnderWay || isStaged(ctx.storage.sql, tables);
}

/** Why a session cannot be imported here, by a caller who may read the session that is here. */
export function importRefusal(
  { ctx, access, removal, tables }: SessionContext,
  { sessionId, workspace, caller }: ImportOrder,
): Refused | undefined {
  if (access.owner || isStaged(ctx.storage.sql, tables)) return occupied(sessionId);
  if (removal.isUnderWay) return beingDeleted(sessionId);
  if (!mayOpenIn(workspace, caller))
    throw new Error("The caller may not import sessions into this workspace");
  return undefined;
}

/** There is a session, or one is being imported. */
function occupied(sessionId: string): Refused {
  const message = `There is a session ${sessionId} here: use ?as=new for a copy`;
  return refused({ reason: "conflict", message });
}

/** The index still has the row of the session that was here. */
function beingDeleted(sessionId: string): Refused {
  const message = `The session ${sessionId} is being deleted: import it later, or use ?as=new for a copy`;
  return refused({ reason: "conflict", message });
}
