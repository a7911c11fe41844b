/** The part of `limits.ts` that the webhooks of a workspace obey. */
export const WEBHOOK_LIMITS = {
  /** Webhook messages that a workspace recognises when a session hands them over twice: a few seconds of many sessions. */
  webhookMessagesRemembered: 10_000,

  /** Webhooks per workspace, length of a webhook's URL, and messages that may wait for one webhook. */
  webhooksPerWorkspace: 20,
  webhookUrlChars: 2000,
  webhookQueue: 1000,
  /** Concurrent requests to webhooks of a workspace. An object may have six connections and needs some itself. */
  webhooksAtOnce: 4,
  /** Time for a receiver to answer. */
  webhookTimeoutMs: 10_000,
  /** Pause after the first failed attempt. The later pauses are multiples of it, see `retry-schedule.ts`. */
  webhookRetryMs: 5_000,
  /** Longest pause that a receiver may ask for. */
  webhookRetryAfterMs: 60 * 60 * 1000,
};
