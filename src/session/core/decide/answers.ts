import { errorResponse, type RpcError, resultResponse } from "../../../protocol/errors.ts";
import type { Frame } from "../../../protocol/frame.ts";
import type { Route } from "../events/event.ts";
import type { RequestToAgent } from "../state/state.ts";
import type { Batch } from "./batch.ts";

/** Answers to the requests of clients: on their way from the agent, or given in the agent's place. */

/** A response goes to the client that asked, under the client's own id. Responses to the gateway go no further. */
export function answerRoute(re: number, { connection, id, also }: RequestToAgent): Route {
  if (connection === undefined || id === undefined) return { re, stop: "gateway" };
  return { re, to: connection, id, ...alsoTo(also) };
}

function alsoTo(also: RequestToAgent["also"]): Pick<Route, "also"> {
  return also ? { also: also.map(({ connection }) => connection) } : {};
}

/** Answers a request in place of the agent. */
export function settle(batch: Batch, seq: number, answer: { result: unknown } | { error: RpcError }): void {
  const pending = batch.state.awaitingAgent[seq];
  // No client waits for a request of the gateway, or for a queued notification.
  if (pending?.connection === undefined || pending.id === undefined) return;
  const all = [{ connection: pending.connection, id: pending.id }, ...(pending.also ?? [])];
  for (const { connection, id } of all) {
    const raw = "error" in answer ? errorResponse(id, answer.error) : resultResponse(id, answer.result);
    batch.frame("gateway", "in", raw, { to: connection, re: seq, ...alsoTo(pending.also) });
  }
}

/** Answers a request with the reason. Any other frame stays in the log and goes no further. */
export function refuseClient(batch: Batch, connection: string, frame: Frame, error: RpcError): void {
  const seq = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  if (frame.kind === "request")
    batch.frame("gateway", "in", errorResponse(frame.idText, error), { to: connection, re: seq });
}
