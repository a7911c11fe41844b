import { Hono } from "hono";
import type { AppEnv } from "../../app-env.ts";
import { requireSocketScope } from "../../middleware/authentication.ts";
import { requireUpgrade } from "../../middleware/upgrade.ts";
import { openWebSocket } from "./acp.ts";

/** Where web clients connect that select their agent by control frames, next to the protocol of `/acp`. */
export const agentWsRoutes = new Hono<AppEnv>();

agentWsRoutes.get("/", requireSocketScope("session:prompt", "session:read"), requireUpgrade, (c) =>
  openWebSocket(c, { control: true }),
);
