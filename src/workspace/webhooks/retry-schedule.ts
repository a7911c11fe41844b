import { LIMITS } from "../../protocol/limits.ts";

/** How hard the receivers of webhooks are tried: when again, and how many at the same time. */

/** Pauses between attempts, in units of `webhookRetryMs`: 5 s, 30 s, 2 min, 10 min, 1 h, 4 h and 12 h. */
const PAUSES = [1, 6, 24, 120, 720, 2880, 8640];

/** A pause is longer by up to this part of it, so that not all that failed together comes back together. */
const JITTER = 0.2;

/** When to try again after that many attempts; undefined: it is given up. `random` is between 0 and 1. */
export function retryAt(
  attempts: number,
  now: number,
  random: number,
  retryAfterMs: number,
): number | undefined {
  const pause = PAUSES[attempts - 1];
  if (pause === undefined) return undefined;
  const ms = pause * LIMITS.webhookRetryMs * (1 + random * JITTER);
  return Math.ceil(now + Math.max(ms, Math.min(retryAfterMs, LIMITS.webhookRetryAfterMs)));
}

/** How long a receiver wants to be left alone: `Retry-After` is in seconds or a date. */
export function readRetryAfter(header: string | null, now: number): number {
  if (header === null) return 0;
  const ms = /^\d{1,9}$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}

/**
 * Which of those that have something to be sent get to send it now. Those that are failing may take half of the room
 * at most: they are slow, and must not keep it from the others.
 */
export function admitted<T extends { isFailing: boolean }>(
  waiting: readonly T[],
  underWay: readonly { isFailing: boolean }[],
): T[] {
  let room = LIMITS.webhooksAtOnce - underWay.length;
  let roomToFail = Math.ceil(LIMITS.webhooksAtOnce / 2) - underWay.filter((one) => one.isFailing).length;
  return waiting.filter(({ isFailing }) => {
    if (room <= 0 || (isFailing && roomToFail <= 0)) return false;
    room -= 1;
    if (isFailing) roomToFail -= 1;
    return true;
  });
}
