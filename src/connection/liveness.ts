import { LIMITS } from "../protocol/limits.ts";

/** What is remembered of a client's socket to tell whether somebody is still there. Times are coarse. */
export type Signs = {
  /** When something last came from it, and, where that counts, went to it. */
  heard: number;
  /** When it was asked whether it is there, and has not said anything since. */
  askedAt?: number | undefined;
};

/** What to do about a socket: look again at that time, ask its client, or close it for that reason. */
export type Verdict = number | "ask" | "no answer" | "idle";

/**
 * A client that says nothing may be gone, and nobody tells us when a network is. One that can be asked is, and stays if
 * it answers anything; one that cannot be asked is let go when nothing at all has happened for that long.
 */
export function judge({ heard, askedAt }: Signs, canBeAsked: boolean, now: number): Verdict {
  const until = heard + grain() + LIMITS.socketIdleMs;
  if (until > now) return until;
  if (!canBeAsked) return "idle";
  if (askedAt === undefined) return "ask";
  return askedAt + LIMITS.pongMs > now ? askedAt + LIMITS.pongMs : "no answer";
}

/** The same after something was heard; undefined if that is no news. Writing it down for each message would cost more. */
export function hear(signs: Signs, now: number): Signs | undefined {
  if (signs.askedAt === undefined && now < signs.heard + grain()) return undefined;
  return { heard: now, askedAt: undefined };
}

/** How exactly times are known. */
function grain(): number {
  return Math.min(60_000, LIMITS.socketIdleMs / 10);
}
