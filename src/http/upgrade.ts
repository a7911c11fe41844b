import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";

export const requireUpgrade = createMiddleware(async (c, next) => {
  if (c.req.header("Upgrade")?.toLowerCase() !== "websocket")
    throw new HTTPException(426, { message: "Connect with a WebSocket" });
  await next();
});
