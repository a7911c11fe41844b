import { createMiddleware } from "hono/factory";
import type { AppEnv } from "../app-env.ts";
import { RefusalException } from "../refusal-response.ts";
import { isAllowedOrigin, originOf } from "./origin.ts";
import { isUpgrade } from "./upgrade.ts";

/** A browser opens a WebSocket for any page without a CORS preflight, so the gateway checks the page's origin. */
export const refuseForeignSockets = createMiddleware<AppEnv>(async (c, next) => {
  if (isUpgrade(c.req.raw) && originOf(c.req.raw) === "foreign" && !isAllowedOrigin(c.env, c.req.raw))
    throw new RefusalException({
      reason: "forbidden",
      message: "Pages of this origin may not connect: see ALLOWED_ORIGINS",
    });
  await next();
});
