import type { CloseMeaning } from "../../../protocol/close-meaning.ts";
import type { Left } from "../../../protocol/rpc.ts";
import { isAskedBy } from "../state/askers.ts";
import type { SessionState } from "../state/state.ts";
import type { Batch } from "./batch.ts";

/** Clients that leave a session which goes on without them. */

/**
 * A client that leaves. `names` are its connection and the lost one that it continues, `controllers` all connections
 * that may steer the session.
 */
export type Leaver = { readonly names: readonly string[]; readonly controllers: readonly string[] };

/** Whether a client's `session/close` ends the session, in place of detaching the client. */
export function endsSession(state: SessionState, leaver: Leaver, asked: CloseMeaning | undefined): boolean {
  const meaning = asked ?? state.closeMeans ?? "auto";
  return meaning === "auto" ? !isUsedByOthers(state, leaver) : meaning === "end";
}

/** Whether another controller is attached, or another client's work is running or waiting. */
function isUsedByOthers(
  { turn, queue, awaitingAgent }: SessionState,
  { names, controllers }: Leaver,
): boolean {
  const isOthers = (seq: number) => {
    const request = awaitingAgent[seq];
    return request?.connection !== undefined && !isAskedBy(request, names);
  };
  return (
    controllers.some((connection) => !names.includes(connection)) ||
    (turn !== null && isOthers(turn.prompt)) ||
    queue.some(({ seq }) => isOthers(seq))
  );
}

/** Takes a client off the requests that the agent has not answered. A client without such requests leaves no trace. */
export function abandonRequests(batch: Batch, connection: string): Left["open"] {
  const open = Object.entries(batch.state.awaitingAgent).flatMap(([seq, { method, also = [], ...asked }]) =>
    [asked, ...also].flatMap(({ connection: asker, id }) =>
      asker === connection && id !== undefined ? { seq: Number(seq), method, id } : [],
    ),
  );
  if (open.length > 0)
    batch.fact("gateway", "session.detached", { connection, requests: open.map(({ seq }) => seq) });
  return open.map(({ id, method }) => ({ id, method }));
}
