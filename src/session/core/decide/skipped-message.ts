import { ErrorCode } from "../../../protocol/errors.ts";
import type { HandedMessage } from "../../../protocol/webhook-messages.ts";
import type { Batch } from "./batch.ts";

/** Notes a webhook message that the workspace could not take. */
export function noteSkippedMessage(batch: Batch, { id, type, body }: HandedMessage, tries: number): void {
  const message = `The webhook message ${id} (${type}, ${body.length} characters) is skipped: the workspace failed ${tries} times to take the message`;
  batch.fact("gateway", "error", {
    ...{ origin: "gateway", code: ErrorCode.internal, detailCode: "webhook_message_skipped", message },
  });
}
