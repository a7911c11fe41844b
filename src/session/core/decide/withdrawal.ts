import { notification } from "../../../protocol/errors.ts";
import { clientRequestId } from "../../../protocol/ids.ts";
import { abilityFor } from "../../../protocol/question.ts";
import type { RequestOfAgent } from "../state/state.ts";
import type { Batch } from "./batch.ts";

/** Tells every client that was shown the request, except the one that answered it, that the request is settled. */
export function withdraw(batch: Batch, seq: number, { to, question }: RequestOfAgent, except?: string): void {
  const requestId = clientRequestId(batch.state.sessionId, seq);
  batch.frame("gateway", "in", notification("$/cancel_request", { requestId }), {
    re: seq,
    ...(to === undefined ? {} : { to }),
    ...(question && { having: abilityFor(question.mode) }),
    ...(except === undefined ? {} : { except }),
  });
}
