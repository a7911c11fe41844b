import type { Role } from "../../../protocol/caller.ts";
import { errorResponse, METHOD_CHARS, type RpcError, resultResponse } from "../../../protocol/errors.ts";
import { type Frame, mustReadFrame, type ResponseFrame } from "../../../protocol/frame.ts";
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

/** A client's answer that is refused, as an error. Of the answer it has the id only: the agent learns the reason. */
export function refusedAnswer({ idText }: ResponseFrame, error: RpcError): ResponseFrame {
  const frame = mustReadFrame(errorResponse(idText, error));
  if (frame.kind !== "response") throw new Error("An error response is no response");
  return frame;
}

/** Answers a request with the reason. Of a refused frame the log has the id and the method, and never the contents. */
export function refuseClient(
  batch: Batch,
  connection: string,
  frame: Exclude<Frame, ResponseFrame>,
  error: RpcError,
  role: Role = "controller",
): void {
  const isReader = role === "observer";
  const id = frame.idText === undefined ? "" : `"id":${frame.idText},`;
  const method = JSON.stringify((frame.method ?? "").slice(0, METHOD_CHARS));
  const refused = `{"jsonrpc":"2.0",${id}"method":${method}}`;
  const seq = batch.frame("client", "out", refused, {
    connection,
    stop: isReader ? "reader" : "gateway",
  });
  const back: Route = { to: connection, re: seq, ...(isReader && { stop: "reader" }) };
  if (frame.kind === "request") batch.frame("gateway", "in", errorResponse(frame.idText, error), back);
}
