import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import type { AppEnv } from "../app-env.ts";
import { excessIn } from "./request-limits.ts";

/** Refuses a URL or headers that are longer than any legitimate request needs. */
export const limitLength = createMiddleware<AppEnv>(async (c, next) => {
  const excess = excessIn(c.req.raw, c.get("limits"));
  if (excess === "url") throw new HTTPException(414, { message: "The URL is too long" });
  if (excess === "headers") throw new HTTPException(431, { message: "The headers are too long" });
  await next();
});
