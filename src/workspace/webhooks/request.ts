import { Webhook as Signer } from "standardwebhooks";
import { LIMITS } from "../../protocol/limits.ts";
import { readRetryAfter } from "./retry-schedule.ts";

/** One attempt to bring a message to its receiver, as https://www.standardwebhooks.com has it. */

/** What the receiver said; without a status there was no answer. */
export type Answer = { status: number | null; retryAfterMs: number };

export const NO_ANSWER: Answer = { status: null, retryAfterMs: 0 };

/** A fresh one, in the form receivers know. */
export function makeSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
}

/** Signed for this moment: a receiver refuses what is old. Of the answer nothing is read but its head. */
export async function post(url: string, secret: string, id: string, body: string): Promise<Answer> {
  const now = new Date();
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "User-Agent": "acp-edge",
      "webhook-id": id,
      "webhook-timestamp": String(Math.floor(now.getTime() / 1000)),
      "webhook-signature": new Signer(secret).sign(id, now, body),
    },
    body,
    // Wherever it would lead, nobody has configured that.
    redirect: "manual",
    signal: AbortSignal.timeout(LIMITS.webhookTimeoutMs),
  });
  await response.body?.cancel();
  const { status, headers } = response;
  const isBusy = status === 429 || status === 503;
  return {
    status,
    retryAfterMs: isBusy ? readRetryAfter(headers.get("Retry-After"), now.getTime()) : 0,
  };
}
