import type { Limits } from "../../protocol/limits.ts";
import type { Refusal } from "../../protocol/refusal.ts";
import type { Quota } from "../../protocol/rpc.ts";
import { retryAfterMs } from "../allowance.ts";

export type QuotaRefusal = Extract<Refusal, { reason: "too-many" }> & { retryAfterMs: number };

/** Tells a subject that it has spent a quota of this hour. */
export function quotaRefusal(limits: Limits, quota: Quota, now: number): QuotaRefusal {
  return {
    reason: "too-many",
    message: `One user may ${describe(limits, quota)} an hour`,
    retryAfterMs: retryAfterMs(now),
  };
}

function describe({ sessionsPerHour, promptsPerHour, charsPerHour }: Limits, quota: Quota): string {
  switch (quota) {
    case "sessions":
      return `open ${sessionsPerHour} sessions`;
    case "prompts":
      return `send ${promptsPerHour} prompts`;
    case "chars":
    case "reserve":
      return `send ${charsPerHour} characters`;
  }
}
