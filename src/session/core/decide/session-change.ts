import { notification } from "../../../protocol/errors.ts";
import type { SessionChange } from "../../../protocol/session-change.ts";
import { titleOf } from "../state/session-title.ts";
import type { Batch } from "./batch.ts";
import { close } from "./process-end.ts";

/** Titles, and sessions put away, by clients and over REST. */

/** `by` is the client's connection, or the route; `subject` the person. */
export type Changer = { readonly by: string; readonly subject: string };

/** A change that changes nothing leaves no trace. */
export function changeSession(batch: Batch, { title, archived }: SessionChange, changer: Changer): void {
  const { state } = batch;
  if (title !== undefined && title !== state.title) {
    batch.fact("gateway", "session.titled", { title, ...changer });
    tellTitle(batch);
  }
  if (archived === undefined || archived === (state.archived ?? false)) return;
  // ACP frees the resources of a session that is archived, as if it were closed.
  if (archived && !state.closed) close(batch, changer.by);
  batch.fact("gateway", archived ? "session.archived" : "session.unarchived", { ...changer });
}

/** Tells every client the title. After an update of the agent the person's title holds again. */
export function tellTitle(batch: Batch): void {
  const { sessionId } = batch.state;
  const update = { sessionUpdate: "session_info_update", title: titleOf(batch.state) };
  batch.frame("gateway", "in", notification("session/update", { sessionId, update }));
}
