import { CloseCode } from "../protocol/close-codes.ts";
import { ExtensionMethod } from "../protocol/extensions.ts";
import type { Frame } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Ways } from "../tenant/client/quota-spender.ts";
import type { Exceeded } from "../tenant/quotas.ts";

/** A message that asks for nothing, and so cannot be answered, is more than its sender may send in this hour. */
export class QuotaExceeded extends Error {
  readonly retryAfterMs: number;

  constructor({ message, data }: Exceeded) {
    super(message);
    this.retryAfterMs = data.retryAfterMs;
  }
}

/** Why a socket ends that has sent such a message. */
export const QUOTA_EXCEEDED = { code: CloseCode.policyViolation, reason: "quota exceeded" } as const;

/**
 * What a message costs. A small one by which something is cancelled, answered or allowed to go on can be paid for from
 * the reserve as well.
 */
export function costOf(chars: number, frame: Frame | undefined): Ways {
  const isPrompt = frame?.method === "session/prompt";
  // Also if it is none: the next one need not wait for the tenant then.
  const cost = { chars, prompts: isPrompt ? 1 : 0 };
  const isNeeded = frame && !isPrompt && (ANSWERS.has(frame.kind) || NEEDED.has(frame.method ?? ""));
  return isNeeded && chars <= LIMITS.smallChars ? [cost, { reserve: chars }] : [cost];
}

const ANSWERS: ReadonlySet<string> = new Set(["notification", "response"] satisfies Frame["kind"][]);

/** Requests that answer or end something, in the older forms, and the one without which a connection ends. */
const NEEDED: ReadonlySet<string> = new Set([
  "session/respond_to_permission",
  "session/cancel",
  ExtensionMethod.renewToken,
]);
