import type { Limits } from "../protocol/limits.ts";

/** When a client last gave a sign of life. Times are coarse, so that few messages need a write. */
export type Liveness = {
  /** When the last message came from the client, or, if it cannot be pinged, went to it. */
  readonly heard: number;
  /** When the client was pinged, if it has said nothing since. */
  readonly askedAt?: number | undefined;
  /** When the client got a ping that nothing but its answer settles, because more output waits for the answer. */
  readonly pausedAt?: number | undefined;
};

/** When to check again, or what to do: ping the client, or close its socket for the given reason. */
export type LivenessCheck = number | "ping" | "no answer" | "idle";

type LivenessLimits = Pick<Limits, "socketIdleMs" | "pongMs">;

/**
 * A silent client may be gone, and no network reports that. A client that can be pinged stays if it answers anything.
 * A client that cannot be pinged is closed when nothing at all has happened for `socketIdleMs`.
 */
export function checkLiveness(
  { heard, askedAt, pausedAt = Number.POSITIVE_INFINITY }: Liveness,
  canBePinged: boolean,
  now: number,
  limits: LivenessLimits,
): LivenessCheck {
  const pausedUntil = pausedAt + limits.pongMs;
  if (pausedUntil <= now) return "no answer";
  const until = Math.min(heard + grainMs(limits) + limits.socketIdleMs, pausedUntil);
  if (until > now) return until;
  if (!canBePinged) return "idle";
  if (askedAt === undefined) return "ping";
  return askedAt + limits.pongMs > now ? askedAt + limits.pongMs : "no answer";
}

/** The liveness after a message; undefined if it need not be written: one write per message would cost more. */
export function touch(
  { heard, askedAt }: Liveness,
  now: number,
  limits: Pick<LivenessLimits, "socketIdleMs">,
): Pick<Liveness, "heard" | "askedAt"> | undefined {
  if (askedAt === undefined && now < heard + grainMs(limits)) return undefined;
  return { heard: now, askedAt: undefined };
}

/** How exactly times are known. */
function grainMs({ socketIdleMs }: Pick<LivenessLimits, "socketIdleMs">): number {
  return Math.min(60_000, socketIdleMs / 10);
}
