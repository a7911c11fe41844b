import { Hono } from "hono";
import { listUsage } from "../../index/usage-index.ts";
import { USAGE_QUERY, type UsageList } from "../../protocol/usage.ts";
import type { AppEnv } from "../app-env.ts";
import { parseQuery } from "../input.ts";

/** Cost and tokens of the caller's sessions, by day, workspace and user. */
export const usageRoutes = new Hono<AppEnv>();

usageRoutes.get("/usage", async (c) => {
  const query = parseQuery(c, USAGE_QUERY);
  return c.json<UsageList>(await listUsage(c.env.INDEX, c.get("caller"), query));
});
