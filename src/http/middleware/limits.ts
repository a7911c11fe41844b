import { createMiddleware } from "hono/factory";
import { type Limits, readLimits } from "../../protocol/limits.ts";
import type { AppEnv } from "../app-env.ts";

/** Gives every request the limits of this deployment. */
export const provideLimits = createMiddleware<AppEnv>(async (c, next) => {
  c.set("limits", limitsOf(c.env));
  await next();
});

/** An isolate reads its limits once, and again only if the variable differs. */
let cache: { text: string | undefined; limits: Limits } | undefined;

function limitsOf({ LIMITS }: Pick<Env, "LIMITS">): Limits {
  if (!cache || cache.text !== LIMITS) cache = { text: LIMITS, limits: readLimits(LIMITS) };
  return cache.limits;
}
