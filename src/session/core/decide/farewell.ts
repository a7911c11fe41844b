import type { SessionState } from "../state/state.ts";
import type { Batch } from "./batch.ts";

/** The last request to an agent whose session is closed or deleted here, so that the agent can do the same with its own. */

type Farewell = "session/close" | "session/delete";

/**
 * Tells the agent that its session is over, if the agent has the method and its process can hear it. Returns the number
 * of the request.
 */
export function sayFarewell(batch: Batch, method: Farewell): number | undefined {
  const { run, agent, context } = batch.state;
  const hasMethod = method === "session/close" ? run?.canClose : run?.canDelete;
  if (!run || !hasMethod || run.stopping || !run.connected || agent !== "ready") return undefined;
  const params = { sessionId: context.acpSessionId };
  const request = { jsonrpc: "2.0", id: batch.nextSeq, method, params };
  return batch.frame("gateway", "out", JSON.stringify(request));
}

/** Whether the agent has yet to answer the farewell: until then, or for a short time, its process goes on. */
export function awaitsFarewell({ awaitingAgent }: SessionState): boolean {
  return Object.values(awaitingAgent).some(
    ({ method, connection }) => method === "session/close" && connection === undefined,
  );
}
