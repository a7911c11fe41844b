import type { Context } from "hono";
import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { RefusalException } from "../refusal-response.ts";

/** Limits the requests of one address. Runs before the token is verified, so guessing tokens is limited as well. */
export const limitAddress = createMiddleware<AppEnv>(async (c, next) => {
  const address = c.req.header("CF-Connecting-IP");
  if (address !== undefined) await limitRate(c, `address:${address}`);
  await next();
});

/** Counts a request against the rate of one key, if the deployment has a rate limiter. */
export async function limitRate(c: Context<AppEnv>, key: string): Promise<void> {
  const outcome = await c.env.RATE_LIMITER?.limit({ key });
  if (outcome === undefined || outcome.success) return;
  throw tooMany("Too many requests: try again later");
}

function tooMany(message: string, retryAfterMs = RATE_PERIOD_MS): RefusalException {
  return new RefusalException({ reason: "too-many", message, retryAfterMs });
}

/** The shortest period of a rate limiter. The limiter does not tell when there is room again. */
const RATE_PERIOD_MS = 10_000;
