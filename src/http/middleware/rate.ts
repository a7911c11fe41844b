import type { Context } from "hono";
import { LIMITS } from "../../protocol/limits.ts";
import { mayConnect } from "../../tenant/quotas.ts";
import { RefusalException } from "../refusal-response.ts";
import type { AppEnv } from "./auth.ts";

/** Counts a request against what one key may do, if the deployment has a rate limiter. */
export async function limitRate(c: Context<AppEnv>, key: string): Promise<void> {
  const answer = await c.env.RATE_LIMITER?.limit({ key });
  if (answer === undefined || answer.success) return;
  throw tooMany("Too many requests: try again later");
}

/** A new connection is one more of the caller's. */
export async function limitConnections(c: Context<AppEnv>): Promise<void> {
  if (await mayConnect(c.env, c.get("caller"))) return;
  throw tooMany(`One user may have ${LIMITS.socketsPerSubject} connections at a time`);
}

export function tooMany(message: string, retryAfterMs = RATE_MS): RefusalException {
  return new RefusalException({ reason: "too-many", message, retryAfterMs });
}

/** Of rates and connections nobody knows when; the shortest period of a limiter is this long. */
const RATE_MS = 10_000;
