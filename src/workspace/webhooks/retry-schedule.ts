import type { Limits } from "../../protocol/limits.ts";

/** When a failed delivery to a webhook is tried again, and how many deliveries run at a time. */

/** Pauses between attempts, in units of `webhookRetryMs`: 5 s, 30 s, 2 min, 10 min, 1 h, 4 h and 12 h. */
const PAUSES = [1, 6, 24, 120, 720, 2880, 8640];

/** A pause is extended by up to this fraction, so that deliveries that failed together do not return together. */
const JITTER = 0.2;

/**
 * When to try again after so many failed attempts; undefined: the message is given up. `random` is between 0 and 1,
 * `retryAfterMs` is the pause that the receiver asked for.
 */
export function retryAt(
  attempts: number,
  now: number,
  random: number,
  retryAfterMs: number,
  limits: Pick<Limits, "webhookRetryMs" | "webhookRetryAfterMs">,
): number | undefined {
  const pause = PAUSES[attempts - 1];
  if (pause === undefined) return undefined;
  const ms = pause * limits.webhookRetryMs * (1 + random * JITTER);
  return Math.ceil(now + Math.max(ms, Math.min(retryAfterMs, limits.webhookRetryAfterMs)));
}

/** The pause that a receiver asks for: `Retry-After` is in seconds or a date. */
export function readRetryAfter(header: string | null, now: number): number {
  if (header === null) return 0;
  const ms = /^\d{1,9}$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}

/**
 * The webhooks that may send a message now. Failing webhooks are slow, so they get at most half of the room: the others
 * must not wait for them.
 */
export function admitted<T extends { isFailing: boolean }>(
  waiting: readonly T[],
  sending: readonly { isFailing: boolean }[],
  maxSending: number,
): T[] {
  let room = maxSending - sending.length;
  let roomToFail = Math.ceil(maxSending / 2) - sending.filter((one) => one.isFailing).length;
  return waiting.filter(({ isFailing }) => {
    if (room <= 0 || (isFailing && roomToFail <= 0)) return false;
    room -= 1;
    if (isFailing) roomToFail -= 1;
    return true;
  });
}
