import { Webhook as Signer } from "standardwebhooks";
import { readRetryAfter } from "./retry-schedule.ts";

/** One attempt to deliver a message to its receiver, as https://www.standardwebhooks.com specifies. */

/** The receiver's response; `status` is null if there was none. */
export type WebhookResponse = { status: number | null; retryAfterMs: number };

export const NO_RESPONSE: WebhookResponse = { status: null, retryAfterMs: 0 };

/** A new signing secret in the format of the specification. */
export function makeSecret(): string {
  return `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`;
}

/**
 * Signs the message for this moment, because receivers refuse old signatures, and sends it. The body of the response is
 * not read.
 */
export async function post(
  { url, secret }: { url: string; secret: string },
  { id, body }: { id: string; body: string },
  timeoutMs: number,
): Promise<WebhookResponse> {
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
    // Nobody has configured the address that a redirect leads to.
    redirect: "manual",
    signal: AbortSignal.timeout(timeoutMs),
  });
  await response.body?.cancel();
  const { status, headers } = response;
  const isBusy = status === 429 || status === 503;
  return {
    status,
    retryAfterMs: isBusy ? readRetryAfter(headers.get("Retry-After"), now.getTime()) : 0,
  };
}
